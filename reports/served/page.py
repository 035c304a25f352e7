"""The page of requests that were served: how long they took, queue, batch and memory over time, energy by cause."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pimloom.arch.files import prepare_folder, together, write_atomic, write_json
from pimloom.arch.name_units import counted, some_layers
from pimloom.arch.units import J_PER_MJ, S_PER_MS
from pimloom.reports.compare.cells import cells_line
from pimloom.reports.figures import stacked_bars
from pimloom.reports.page import Card, Column, Figure, Notes, Page, Section, TableData, render
from pimloom.reports.served.curves import Over, curves, percentiles
from pimloom.reports.served.tables import facts, limits, times
from pimloom.reports.terminal.online import pricing_lines
from pimloom.systems.serving.results.outcome import Online, Spread

FILES = ("index.html", "results.json")
MOST_REPLICAS = 8  # with curves of their own


def write_page(out: Path, found: Online) -> Path:
    """`index.html` and `results.json`, both or none. Raises UserError."""
    with together():
        folder = prepare_folder(out)
        write_json(folder / "results.json", found.to_dict())
        write_atomic(folder / "index.html", render(build_page(found)))
    return folder / "index.html"


def build_page(found: Online) -> Page:
    """The whole page."""
    over = Over(min(found.by_request["arrival_s"]), max(found.by_iteration["end_s"]), found.iteration_count)
    prompt, output = found.statistics.prompt_tokens.mean, found.statistics.output_tokens.mean
    lengths = f"prompts of {prompt:,.0f} and outputs of {output:,.0f}"
    rate = found.statistics.rate_per_s
    sections = [
        Section("Summary", "summary", _said(found), [times(found), *limits(found), facts(found)]),
        Section("Over time", "over-time", OVER_TIME, list(over_time(found, over))),
        Section("Percentiles", "percentiles", PERCENTILES, list(_percentiles(found))),
        Section("Energy", "energy", " ".join([_rest(found), *_cells(found)]), list(_energy(found, over))),
        Section("How it was found", "how", "", [Notes("Where numbers come from", list(_notes(found)))]),
    ]
    return Page(
        f"{found.model} on {found.system}",
        f"{counted(found.statistics.requests, 'request')} of {found.workload['name']}, "
        f"{'all at once' if rate is None else f'{rate:,.3g} a second'}, {lengths} tokens on average, "
        f"served by {found.scheduler}.",
        sections,
        list(cards(found)),
        {"version": found.version, "digest": found.spec_digest, "seed": found.seed},
    )


OVER_TIME = (
    "From the first arrival to the last token, in parts of equal length, each with its mean over time. Preemptions "
    "stand where the requests that had to yield arrived."
)
PERCENTILES = "How values are spread over requests; a steep line: most of them are alike."
UP_TO = "Per cent of requests whose value is at most so much."
POWER = "Of all devices; what they take at rest is not in it."
BUSY = "A stage of a pipeline works while an iteration is on it."


def cards(found: Online) -> Iterator[Card]:
    """What is asked for first."""
    each = found.time_per_output_token_s
    yield Card("Output tokens", f"{found.tokens_per_s:,.1f}", "tokens/s", f"{found.time_s:,.1f} s in all")
    yield Card(
        "Time to first token, p50", found.time_to_first_token_s.p50 / S_PER_MS, "ms", _p99(found.time_to_first_token_s)
    )
    if each is not None:
        yield Card("Time per output token, p50", each.p50 / S_PER_MS, "ms", _p99(each))
    if found.slo is not None:
        yield Card("Requests that hold all limits", f"{found.slo.all:.1%}")
    if found.energy_per_token_j is not None:
        rest = (
            "" if found.rest_j is None or not found.energy_j else f"{found.rest_j / found.energy_j:.0%} of it at rest"
        )
        yield Card("Energy of an output token", found.energy_per_token_j / J_PER_MJ, "mJ", rest or "without rest")
    if found.tokens_per_usd is not None:
        yield Card(
            "Output tokens for a dollar", f"{found.tokens_per_usd:,.0f}", "", f"{found.usd_per_h:,.4g} $ an hour"
        )


def _p99(times: Spread) -> str:
    return f"p99 {times.p99 / S_PER_MS:,.4g} ms"


def _said(found: Online) -> str:
    replicas = f"{found.replicas:,} replicas, t" if found.replicas > 1 and "=" not in found.system else "T"
    if "=" in found.system and ":" in found.system:
        replicas = "Decode t"
    stages = f" in {found.pp} stages" if found.pp > 1 else ""
    sure = found.latency_s.sure
    unsure = (
        f"\n\nPercentiles above {sure:.0f} are unsure: fewer than ten requests lie behind them." if sure < 99 else ""
    )
    return (
        f"{replicas}ensor parallel over {found.tp}{stages}, {'with' if found.lm_head else 'without'} embedding and LM "
        f"head{some_layers(found.layers, found.model_layers)}. At most {counted(found.batch, 'request')} and "
        f"{counted(found.batch_tokens, 'token')} in an iteration, {counted(found.blocks, 'block')} of "
        f"{counted(found.block_size, 'token')} of KV cache.{unsure}"
    )


def over_time(found: Online, over: Over) -> Iterator[Figure]:
    """Queue and batch, memory, preemptions if there are some, replicas."""
    of = {name: np.array(values, float) for name, values in found.by_iteration.items()}
    start, end, replica = of["start_s"], of["start_s"] + of["time_s"], of["replica"]
    x: dict[str, Any] = {"xlabel": "time [s]", "steps": True}
    waiting = np.maximum(_held(of, "waiting", over), 0.0)
    batch = over.mean(start, end, of["requests"])
    both = {"requests in an iteration": over.points(batch), "requests that wait": over.points(waiting)}
    said = (
        "Requests of all replicas that are computed on, and those that wait for their first iteration or another one."
    )
    yield curves("Queue and batch", both, ylabel="requests [-]", caption=said, **x)
    kv = _held(of, "blocks_used", over)
    names = {int(n): f"replica {int(n)}" for n in np.unique(replica)}
    if "=" in found.system:  # pools, whose memories differ
        yield curves(
            "KV memory", {"in use": over.points(kv)}, ylabel="blocks in use [-]", caption="Of both pools.", **x
        )
    else:
        share = {"in use": over.points(100 * kv / found.blocks / found.replicas)}
        said = f"Of {found.blocks:,} blocks of each replica."
        yield curves("KV memory", share, ylabel="blocks in use [%]", caption=said, **x)
    if found.preemptions:
        arrived = np.array(found.by_request["arrival_s"]), np.array(found.by_request["preemptions"], float)
        counts = np.histogram(arrived[0], over.edges, weights=arrived[1])[0]
        yield curves("Preemptions, by arrival of who had to yield", {"so far": over.points(np.cumsum(counts))},
                     ylabel="preemptions [-]", caption="All so far.", **x)  # fmt: skip
    if len(names) > MOST_REPLICAS:
        mine = {"all replicas": np.full(len(start), True)}
    else:
        mine = {name: replica == n for n, name in names.items()}
    stages = 1.0 + np.nan_to_num(of.get("stage", np.zeros(len(start))))
    rows = {n: stages[replica == n].max() for n in names}  # of an iteration, one for each stage
    part = np.array([1 / rows[n] for n in replica])
    busy = {
        name: over.points(100 * over.mean(start[some], end[some], part[some]) / _among(replica[some]))
        for name, some in mine.items()
    }
    yield curves(
        "Resources: share of time in which a replica works", busy, ylabel="busy [%]", top=105.0, caption=BUSY, **x
    )


def _among(replicas: np.ndarray) -> int:
    return len(np.unique(replicas))


def _held(of: dict[str, np.ndarray], name: str, over: Over) -> np.ndarray:
    """Mean over time of what each iteration finds and holds until the next one of its replica, or its own end."""
    found = np.zeros(len(over.edges) - 1)
    for n in np.unique(of["replica"]):
        mine = of["replica"] == n
        start, end, value = of["start_s"][mine], of["end_s"][mine], of[name][mine]
        until = np.maximum(np.minimum(end, np.append(start[1:], np.inf)), start)
        there = until > start
        found += over.mean(start[there], until[there], value[there])
    return found


def _percentiles(found: Online) -> Iterator[Figure]:
    titles = {"Time to first token": "time_to_first_token_s", "Time per output token": "time_per_output_token_s",
              "Latency": "latency_s"}  # fmt: skip
    for title, column in titles.items():
        values = np.array([value for value in found.by_request[column] if value is not None]) / S_PER_MS
        if len(values):
            yield curves(
                title,
                {title: percentiles(values)},
                xlabel=f"{title.lower()} [ms]",
                ylabel="requests [%]",
                caption=UP_TO,
                top=102.0,
            )


def _cells(found: Online) -> list[str]:
    """The cells that the energy includes."""
    if found.energy_by_cell is None:
        return []
    said = cells_line(found.energy_by_cell)
    return [f"{said[0].upper()}{said[1:]}."]


def _rest(found: Online) -> str:
    if found.energy_j is None:
        return "The system or its part does not give what it needs for an energy."
    if found.rest_w is None:
        return "What devices take while they have nothing to do is not known, and is in no figure."
    return f"`at rest`: {found.rest_w:,.4g} W of all devices while they have nothing to do."


def _energy(found: Online, over: Over) -> Iterator[Figure | TableData]:
    causes = {cause: joules for cause, joules in (found.energy_by_cause_j or {}).items() if joules}
    if not causes or not found.energy_j:
        return
    tokens = found.energy_j / found.energy_per_token_j if found.energy_per_token_j else 1.0
    rows = [
        {"cause": cause, "j": joules, "token": joules / tokens / J_PER_MJ, "share": 100 * joules / found.energy_j}
        for cause, joules in sorted(causes.items(), key=lambda one: -one[1])
    ]
    rows.append({"cause": "all", "j": found.energy_j, "token": found.energy_j / tokens / J_PER_MJ, "share": 100.0})
    columns = (Column("cause", "cause"), Column("j", "energy", "J"), Column("token", "of an output token", "mJ"),
               Column("share", "share", "%"))  # fmt: skip
    parts = {cause: [joules / tokens / J_PER_MJ] for cause, joules in list(causes.items())[:12]}
    if len(causes) <= 12:
        yield stacked_bars(
            "Energy of an output token by cause",
            [found.system],
            parts,
            xlabel="system",
            ylabel="energy [mJ]",
            caption="All energy over output tokens.",
        )
    of = {name: np.array(found.by_iteration[name], float) for name in ("start_s", "time_s", "energy_j")}
    power = over.summed(of["start_s"], of["start_s"] + of["time_s"], of["energy_j"]) / over.width
    yield curves(
        "Power of iterations",
        {"iterations": over.points(power)},
        xlabel="time [s]",
        ylabel="power [W]",
        steps=True,
        caption=POWER,
    )
    yield TableData("Energy by cause", columns, rows, "Causes add up to all of it.")


def _notes(found: Online) -> Iterator[str]:
    yield f"Requests: {found.workload['note']}."
    yield from (f"{said[0].upper()}{said[1:]}." for said in pricing_lines(found.pricing))
    for name, value in found.transforms.items():
        yield f"{name.replace('_', ' ')}: {value}"
