"""Latencies, throughput and energy of requests that were served as they came."""

from collections.abc import Iterator, Mapping

from pimloom.arch.name_units import counted, figure, some_layers
from pimloom.arch.units import J_PER_MJ, S_PER_MS
from pimloom.reports.compare.cells import INVERSE, cells_line, sum_sign
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.systems.serving.pricing.sampling import KindError, Pricing
from pimloom.systems.serving.results.backlog import trend_text
from pimloom.systems.serving.results.goodput import Goodput, shown
from pimloom.systems.serving.results.outcome import Attained, Online
from pimloom.workload.requests.statistics import Statistics

COLUMNS = (
    ("name", "ms, over requests or tokens", ""), ("mean", "mean|r", ",.3f"), ("p50", "p50|r", ",.3f"),
    ("p90", "p90|r", ",.3f"), ("p99", "p99|r", ",.3f"), ("max", "longest|r", ",.3f"),
)  # fmt: skip

RESULTS = {
    "time_to_first_token_s": "TTFT", "time_per_output_token_s": "TPOT", "latency_s": "latency", "time_s": "time",
    "energy_j": "energy",
}  # fmt: skip
LONGEST = {".max": "longest"}

RATES = (
    ("rate_per_s", "requests/s|r", ",.3f"), ("state", "backlog", ""), ("growth", "trend|r", "+.1%"),
    ("attained", "hold all|r", ".1%"), ("ttft", "TTFT|r", ".1%"),
    ("tpot", "TPOT|r", ".1%"), ("latency", "latency|r", ".1%"),
    ("time_to_first_token_p90_s", "TTFT p90 s|r", ",.4f"), ("time_per_output_token_p90_s", "TPOT p90 s|r", ",.4f"),
    ("tokens_per_s", "tokens/s|r", ",.1f"), ("energy", "J/token|r", ""),
)  # fmt: skip


def show_served(found: Online | Goodput) -> None:
    """Print either."""
    if isinstance(found, Online):
        show_online(found)
    else:
        show_goodput(found)


def show_goodput(found: Goodput) -> None:
    """Print the rates that were tried, and what was found."""
    show_line(f"{found.model} on {counted(found.devices, 'device')} of {found.system}, {found.scheduler}")
    known = found.rest_w is not None
    sign = "" if found.energy_by_cell is None else sum_sign(found.energy_by_cell, rest_known=known)
    show_rows(RATES, [rate | {"energy": _signed(sign, rate["energy_per_token_j"])} for rate in shown(found)])
    end = "the highest of --rate" if found.fails_per_s is None else f"{found.fails_per_s:,.3f}/s does not"
    most = found.saturation_per_s
    if most is not None:
        show_line(f"saturation: {most:,.3f}/s are completed while requests always wait; no higher rate holds")
    per_j = (
        ""
        if found.requests_per_j is None
        else f", {_signed(INVERSE.get(sign, sign), found.requests_per_j)} requests per J"
    )
    per_j += "" if found.requests_per_usd is None else f", {found.requests_per_usd:,.4g} requests for a dollar"
    show_line(
        f"{found.share:.0%} of requests hold the limits up to {found.goodput_per_s:,.3f}/s ({end}): "
        f"{found.goodput_per_s_per_device:,.3f}/s per device{per_j}"
    )
    if found.requests_per_j is not None:
        cells = "" if found.energy_by_cell is None else f"{cells_line(found.energy_by_cell)}; "
        show_line(f"{cells}{_rest(found)}")
    for said in pricing_lines(found.pricing) if found.pricing else ():
        show_line(said)


def show_online(found: Online) -> None:
    """Print what was served, how, and what came out."""
    show_line(f"{found.workload['name']}: {found.workload['note']}")
    _show_statistics(found.statistics)
    devices = f"{found.replicas:,} x " if found.replicas > 1 and "=" not in found.system else ""  # pools tell theirs
    pipeline = f" in {found.pp} stages" if found.pp > 1 else ""
    whose = "decode " if "=" in found.system and ":" in found.system else ""  # pools that differ
    show_line(
        f"{found.model} on {devices}{found.system}, {whose}tensor parallel over {found.tp}{pipeline}, "
        f"{'with' if found.lm_head else 'without'} embedding and LM head{some_layers(found.layers, found.model_layers)}"
    )
    show_line(
        f"{found.scheduler}: at most {counted(found.batch, 'request')} and {counted(found.batch_tokens, 'token')} in "
        f"an iteration, {counted(found.blocks, 'block')} of {counted(found.block_size, 'token')} of KV cache"
    )
    _show_times(found)
    show_line(
        f"{counted(found.iteration_count, 'iteration')} of {found.batch_mean:,.1f} requests on average in "
        f"{found.time_s:,.3f} s, busy for {found.busy_share:.1%}; {found.tokens_per_s:,.1f} output tokens/s, "
        f"{found.prompt_tokens_per_s:,.1f} prompt tokens/s{_steady(found)}"
    )
    if found.utilisation:
        shares = ", ".join(f"{what} {share:.1%}" for what, share in found.utilisation.items())
        show_line(f"utilisation: {shares}")
    if found.backlog is not None:
        show_line(f"backlog: {trend_text(found.backlog)}")
    _show_memory(found)
    if found.beside is not None:
        beside = found.beside
        show_line(
            f"beside requests {beside['finetuned_tokens']:,.0f} tokens of fine-tuning, "
            f"{beside['finetuned_tokens_per_s']:,.1f}/s, {beside['share_of_peak']:.1%} of what they would be alone"
        )
    if found.accepted_share is not None:
        told = "" if found.tokens_per_step is None else f": {found.tokens_per_step:,.3f} tokens a step and request"
        show_line(f"{found.accepted_share:.1%} of the drafts that were checked were right{told}")
    for said in pricing_lines(found.pricing):
        show_line(said)
    if found.slo:
        show_line(_slo(found.slo))
    if found.usd_per_h is not None and found.tokens_per_usd is not None:
        show_line(f"{found.usd_per_h:,.4g} $ an hour: {found.tokens_per_usd:,.0f} output tokens for a dollar")
    if found.energy_j is None or found.energy_per_token_j is None:
        show_line("no energy: the system or its part does not give what it needs")
        return
    by = ", ".join(f"{cause} {j / found.energy_j:.1%}" for cause, j in (found.energy_by_cause_j or {}).items() if j)
    show_line(
        f"energy {found.energy_j:,.3f} J, {found.energy_per_token_j / J_PER_MJ:,.3f} mJ per output token: {by}; "
        + _rest(found)
    )
    if found.energy_by_cell is not None:
        show_line(cells_line(found.energy_by_cell))


def _signed(sign: str, value: float | None) -> str | None:
    """A number behind the sign of its bound."""
    return None if value is None else sign + figure(value, 4)


def _steady(found: Online) -> str:
    if found.steady is None:
        return ""
    return f"; {found.steady.tokens_per_s:,.1f} output tokens/s while the middle 80 % of requests come"


def _rest(found: Online | Goodput) -> str:
    if found.rest_w is None:
        return "what devices take while they wait is not known, and left out"
    return f"at rest: {found.rest_w:,.4g} W while nothing is to do"


def _show_statistics(found: Statistics) -> None:
    gaps = "all at once" if found.rate_per_s is None else f"{found.rate_per_s:,.3f}/s"
    cv = "" if found.gap_cv is None else f", gaps with a coefficient of variation of {found.gap_cv:.2f}"
    prompt, output = found.prompt_tokens, found.output_tokens
    show_line(
        f"{counted(found.requests, 'request')}, {gaps}{cv}; prompts of {prompt.mean:,.1f} tokens on average "
        f"({prompt.p50:,.0f} / {prompt.p90:,.0f} / {prompt.p99:,.0f} at 50 / 90 / 99 %), outputs of {output.mean:,.1f} "
        f"({output.p50:,.0f} / {output.p90:,.0f} / {output.p99:,.0f})"
    )


def _show_times(found: Online) -> None:
    times = {
        "time to first token": found.time_to_first_token_s, "time per output token": found.time_per_output_token_s,
        "between two tokens": found.token_gap_s, "latency": found.latency_s,
        "latency / output tokens": found.latency_per_token_s, "wait": found.wait_s,
    }  # fmt: skip
    rows = [
        {"name": name} | {key: getattr(spread, key) / S_PER_MS for key in ("mean", "p50", "p90", "p99", "max")}
        for name, spread in times.items()
        if spread is not None
    ]
    show_rows(COLUMNS, rows)
    if (sure := found.latency_s.sure) < 99:
        show_line(f"percentiles of requests above {sure:.0f} are unsure: fewer than ten requests lie behind them")


def _show_memory(found: Online) -> None:
    swaps = f", {found.swaps:,} of them by swap" if found.swaps else ""
    if found.recomputed_tokens:
        again = counted(found.recomputed_tokens, "token")
        swaps += f", {again} computed once more in {found.recomputing_s / S_PER_MS:,.3f} ms"
    hits = found.prefix_hit_share
    shared = "" if hits is None else f"; {hits:.1%} of prompt tokens found in the cache"
    mean, most = found.blocks_used_mean / found.blocks, found.blocks_used_most / found.blocks
    show_line(
        f"KV cache {mean:.1%} used on average, {most:.1%} at most; {counted(found.preemptions, 'preemption')}{swaps}"
        f"{shared}"
    )
    if (there := found.channels) is not None:
        parts = [n / there.blocks for n in there.most]
        show_line(
            f"requests lie in {there.number} channels of {counted(there.blocks, 'block')} by {there.policy}: the "
            f"fullest one had {max(parts):.1%} at most, the emptiest one {min(parts):.1%}"
        )


def pricing_lines(found: Pricing) -> list[str]:
    """Sentences on what was simulated, and on the errors of interpolated prices."""
    if found.exact:
        return ["each different iteration of this run is simulated, no price is interpolated"]
    said = f"{counted(found.simulated, 'iteration')} simulated, prices of the others are interpolated"
    if found.bounds is None or found.error is None:
        return [f"{said}; their error is not known (--sample 0)"]
    energy = "" if found.energy_error is None else f", of their energy {found.energy_error:+.2%}"
    kinds = [f"{kind}: {kind_error_text(error)}" for kind, error in found.kinds.items()]
    beyond = f"errors of prices may exceed the {found.limit:.2%} of --price-error; take --exact, or a larger limit"
    return [
        f"{said}; error of their time {found.error:+.2%}{energy}, measured on {found.sampled:,} of them",
        f"prices of {'; '.join(kinds)}",
        f"results are within these shares of those of --exact: {'; '.join(_bounds(found.bounds))}",
        *([] if found.holds else [beyond]),
    ]


def _bounds(bounds: Mapping[str, float]) -> Iterator[str]:
    """For each result a text with the bounds of its figures."""
    for name, title in RESULTS.items():
        mine = {key.removeprefix(name): bound for key, bound in bounds.items() if key.split(".")[0] == name}
        parts = [f"{LONGEST.get(key, key[1:])} {bound:.2%}".strip() for key, bound in mine.items()]
        if parts:
            yield f"{title} {', '.join(parts)}"


def kind_error_text(error: KindError) -> str:
    """The errors of prices of a kind of phase, in words."""
    if error.exact:
        return "each simulated"
    if error.error_bound is None:
        return "error not known"
    energy = "" if error.energy_error_bound is None else f", energy within {error.energy_error_bound:.2%}"
    return f"time within {error.error_bound:.2%} (one iteration {error.single_bound or 0.0:.2%}){energy}"


def _slo(found: Attained) -> str:
    names = {"time to first token": "ttft", "time per output token": "tpot", "latency": "latency"}
    parts = [
        f"{name} at most {getattr(found, f'{key}_s'):g} s: {getattr(found, key):.1%}"
        for name, key in names.items()
        if getattr(found, key) is not None
    ]
    return f"requests that hold {'; '.join(parts)}; all of it: {found.all:.1%}"
