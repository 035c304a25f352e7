"""Tables of many decode iterations."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from pimloom.reports.npu_pim.decoding import Decoded
from pimloom.show import show_line, show_rows


def show_source(source: Mapping[str, Any]) -> None:
    """Print where the requests came from."""
    skipped = source["warm_up_iterations"]
    before = f"; {skipped:,} iterations before, not simulated" if skipped else ""
    show_line(f"requests of {source['name']}: {source['note']}; placed by {source['policy']}{before}")


def show_decoded(found: Decoded) -> None:
    """Print throughput and latencies."""
    show_line(
        f"{found.model} on {found.system}, {found.fidelity}: {found.iterations:,} iterations of "
        f"{found.batch_mean:,.1f} requests with contexts of {found.context_mean:,.1f} tokens, "
        f"tensor parallel over {found.tp}"
    )
    show_source(found.workload)
    times = {
        "time per output token": found.token_time_s,
        "from arrival to the batch": found.wait_s,
        "from arrival to the last token": found.latency_s,
    }
    rows = [
        {"name": name} | (dict.fromkeys(("mean", "p50", "p99")) if value is None else asdict(value))
        for name, value in times.items()
    ]
    columns = (("name", "seconds", ""), *((name, f"{name}|r", ".4g") for name in ("mean", "p50", "p99")))
    show_rows(columns, rows)
    read = found.iterations - found.simulated_iterations
    show_line(
        f"{found.time_s:,.4g} s; {found.tokens_per_s:,.0f} tokens/s; {found.requests_finished:,} requests finished; "
        f"{found.preemptions:,} preemptions"
        + (f"; {read:,} iterations interpolated, not simulated: an approximation" if read else "")
    )
