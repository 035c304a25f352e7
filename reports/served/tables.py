"""Tables of requests that were served."""

from collections.abc import Iterator

from pimloom.arch.units import J_PER_MJ, S_PER_MS
from pimloom.reports.page import Column, TableData
from pimloom.systems.serving.results.outcome import Online, Spread

TIMES = {
    "time to first token": "time_to_first_token_s", "time per output token": "time_per_output_token_s",
    "between two tokens": "token_gap_s", "latency": "latency_s", "latency / output tokens": "latency_per_token_s",
    "wait": "wait_s",
}  # fmt: skip
TIME_COLUMNS = (
    Column("what", "over requests, or tokens"), Column("mean", "mean", "ms"), Column("p50", "p50", "ms"),
    Column("p90", "p90", "ms"), Column("p99", "p99", "ms"), Column("max", "longest", "ms"), Column("count", "values"),
)  # fmt: skip


def times(found: Online) -> TableData:
    """Means and percentiles."""
    rows = list[dict[str, object]]()
    for what, field in TIMES.items():
        spread: Spread | None = getattr(found, field)
        if spread is not None:
            values = {name: getattr(spread, name) / S_PER_MS for name in ("mean", "p50", "p90", "p99", "max")}
            rows.append({"what": what, **values, "count": spread.count})
    return TableData("Times", TIME_COLUMNS, rows, "Percentiles are linear between values.")


def limits(found: Online) -> Iterator[TableData]:
    """Of `--slo`; nothing without."""
    slo = found.slo
    if slo is None:
        return
    named = {"time to first token": "ttft", "time per output token": "tpot", "latency": "latency"}
    rows = [
        {"what": what, "limit": getattr(slo, f"{key}_s") / S_PER_MS, "share": 100 * getattr(slo, key)}
        for what, key in named.items()
        if getattr(slo, f"{key}_s") is not None
    ]
    rows.append({"what": "all of them", "limit": None, "share": 100 * slo.all})
    columns = (Column("what", "of"), Column("limit", "at most", "ms"), Column("share", "requests that hold it", "%"))
    yield TableData("Limits", columns, rows, "As `--slo` asks for them.")


def facts(found: Online) -> TableData:
    """Rates, memory, energy, price."""
    trend = found.backlog
    rows: list[tuple[str, object, str]] = [
        ("output tokens", found.tokens_per_s, "tokens/s"),
        ("prompt tokens", found.prompt_tokens_per_s, "tokens/s"),
        (
            "output tokens, while the middle 80 % of requests come",
            found.steady and found.steady.tokens_per_s,
            "tokens/s",
        ),
        ("iterations", found.iteration_count, ""),
        ("requests of an iteration, mean", found.batch_mean, ""),
        ("share of time in which a stage works", 100 * found.busy_share, "%"),
        *((f"utilisation, {what}", 100 * share, "%") for what, share in (found.utilisation or {}).items()),
        ("trend of the backlog, of arriving requests", trend and 100 * trend.growth, "%"),
        ("p-value of that trend (Mann-Kendall)", trend and trend.p_value, ""),
        ("the backlog is", trend and trend.state, ""),
        ("KV cache in use, mean over time of iterations", 100 * found.blocks_used_mean / found.blocks, "%"),
        ("KV cache in use, most", 100 * found.blocks_used_most / found.blocks, "%"),
        ("preemptions", found.preemptions, ""),
        ("of them swapped out", found.swaps or None, ""),
        ("tokens computed once more", found.recomputed_tokens or None, ""),
        ("time of that, by its tokens", found.recomputing_s / S_PER_MS if found.recomputed_tokens else None, "ms"),
        ("prompt tokens found in the cache", None if (hit := found.prefix_hit_share) is None else 100 * hit, "%"),
        ("drafts that were right", None if (right := found.accepted_share) is None else 100 * right, "%"),
        ("tokens of a step and request", found.tokens_per_step, ""),
        ("energy", found.energy_j, "J"),
        ("energy of an output token", found.energy_per_token_j and found.energy_per_token_j / J_PER_MJ, "mJ"),
        ("power at rest, all devices", found.rest_w, "W"),
        ("price, all devices", found.usd_per_h, "$/h"),
    ]
    columns = (Column("what", "what"), Column("value", "value", align="right"), Column("unit", "unit"))
    shown = [{"what": what, "value": value, "unit": unit} for what, value, unit in rows if value is not None]
    return TableData("What was served", columns, shown, "Of all replicas, from the first arrival to the last token.")
