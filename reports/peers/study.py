"""Study `peers`: the same decode steps on all systems that ship, side by side: who wins where, and why."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pimloom.arch.files import prepare_folder
from pimloom.arch.llm import load_llm
from pimloom.arch.names import list_names
from pimloom.arch.system import load_system
from pimloom.arch.units import GIB
from pimloom.arch.version import __version__
from pimloom.reports.figures import lines
from pimloom.reports.page import Card, Column, Figure, Page, Section, TableData
from pimloom.reports.peers.steps import Found, Workload, step_on
from pimloom.reports.reproduction import assumptions, counting, write_study
from pimloom.systems.devices.boundary import PARTS, WHOLE

HERE = Path(__file__).parent
MODELS = ("gpt3-xl", "gpt3-7b", "llama-2-7b")
BATCHES = (1, 8, 32)
CONTEXTS = (512, 2048)
WORKLOADS = tuple(Workload(m, b, c) for m in MODELS for c in CONTEXTS for b in BATCHES)
Progress = Callable[[int, int], None]


def run_study(
    out: str | Path, progress: Progress, workloads: Sequence[Workload] = WORKLOADS, systems: Sequence[str] = ()
) -> Path:
    """Run every workload on every system that ships, or on those named, and write the report into folder `out`; returns
    the page."""
    folder = prepare_folder(out)
    loaded = [load_system(name) for name in systems or list_names("systems")]
    count = counting(len(loaded) * len(workloads), progress)
    found = []
    for work in workloads:
        for system in loaded:
            found.append(step_on(system, load_llm(work.model), work))
            count()
    points = [_flat(one) for one in found]
    return write_study(folder, _page(found, workloads), points, points, [])


def _page(found: Sequence[Found], workloads: Sequence[Workload]) -> Page:
    models = list(dict.fromkeys(work.model for work in workloads))
    longest = max(work.context for work in workloads)
    figures = [figure for model in models if (figure := _figure(model, longest, found)) is not None]
    won = [row for work in workloads if (row := _winner(work, found)) is not None]
    return Page(
        "Systems side by side",
        "A decode step of the same models, batches and contexts on every system that ships, each as its file has it.",
        [
            Section("Who wins where", "winners", WINNERS, [_winners(won)]),
            Section("Energy over throughput", "figures", FIGURES, figures),
            Section("Every step", "steps", STEPS, [_steps(found)]),
            Section("What does not run", "refused", REFUSED, [_refused(found)]),
            assumptions(HERE),
        ],
        _cards(won),
        {"pimloom": __version__, "made by": "pimloom report peers"},
    )


WINNERS = (
    "The fastest and the thriftiest of those that run the workload. They are not of one size: memory tells how much "
    "there is of each. A system of which something that works has no figure of energy is not the thriftiest."
)
FIGURES = (
    "Right and down is better. A line joins batches of one system, at the longest context. A system of which something "
    "that works has no figure of energy has no line."
)
STEPS = "All layers; a dash: no figure. Bound: the kind of work that takes longest by itself, at its full rate."
REFUSED = "In the words of the command line."


def _of(work: Workload, found: Sequence[Found]) -> list[Found]:
    """Those that ran it, the fastest first."""
    return sorted((one for one in found if one.workload == work and one.step_ms), key=lambda one: one.step_ms or 0.0)


def _winner(work: Workload, found: Sequence[Found]) -> dict[str, object] | None:
    ran = _of(work, found)
    if not ran:
        return None
    told = sorted((one for one in ran if one.mj_per_token and one.whole), key=lambda one: one.mj_per_token or 0.0)
    return {
        "workload": str(work), "fastest": ran[0].system, "step_ms": ran[0].step_ms,
        "thriftiest": told[0].system if told else None, "mj": told[0].mj_per_token if told else None,
        "why": _why(ran),
    }  # fmt: skip


def _why(ran: Sequence[Found]) -> str:
    first = ran[0]
    beside = "nothing else runs it"
    if len(ran) > 1:
        times = (ran[1].step_ms or 0.0) / (first.step_ms or 1.0)
        beside = f"{times:.3g} times as fast as {ran[1].system}{_bound(ran[1])}"
    return f"{first.system}{_bound(first)}: {beside}"


def _bound(one: Found) -> str:
    return f" ({one.bound} {100 * (one.bound_share or 0.0):.0f} %)" if one.bound else ""


def _winners(won: Sequence[dict[str, object]]) -> TableData:
    return TableData(
        "Fastest and thriftiest",
        [
            Column("workload", "workload"),
            Column("fastest", "fastest"),
            Column("step_ms", "its step", "ms", format=",.3f"),
            Column("thriftiest", "thriftiest"),
            Column("mj", "its energy of a token", "mJ", format=",.1f"),
            Column("why", "why: share of the step that work alone takes"),
        ],
        won,
    )


def _cards(won: Sequence[dict[str, object]]) -> list[Card]:
    """How often each system wins."""
    cards = []
    for what in ("fastest", "thriftiest"):
        names = [str(row[what]) for row in won]
        for name in sorted(set(names), key=lambda name: (-names.count(name), name)):
            cards.append(Card(f"{name} is the {what}", f"{names.count(name)} of {len(won)}", "", "workloads"))
    return cards


def _figure(model: str, context: int, found: Sequence[Found]) -> Figure | None:
    series: dict[str, list[tuple[float, float]]] = {}
    for one in found:
        here = one.workload.model == model and one.workload.context == context and one.whole
        if here and one.tokens_per_s and one.mj_per_token:
            series.setdefault(one.system, []).append((one.tokens_per_s, one.mj_per_token))
    if not series:
        return None
    return lines(
        f"{model}, {context:,} tokens", series, xlabel="throughput [tokens/s]", ylabel="energy of a token [mJ]",
        log_x=True, log_y=True,
    )  # fmt: skip


def _flat(one: Found) -> dict[str, object]:
    model, batch, context = one.workload
    parts = {f"{part} [mJ]": (one.mj_by_part or {}).get(part) for part in (*PARTS, WHOLE)}
    return {
        "model": model, "batch": batch, "context": context, "system": one.system, "step_ms": one.step_ms,
        "tokens_per_s": one.tokens_per_s, "mj_per_token": one.mj_per_token, **parts,
        "memory_bytes": one.memory_bytes, "bound": one.bound, "bound_share": one.bound_share, "reason": one.reason,
    }  # fmt: skip


def _steps(found: Sequence[Found]) -> TableData:
    rows = []
    for one in found:
        if one.step_ms is not None and one.memory_bytes is not None:
            flat = _flat(one)
            told = f"{one.bound} {100 * (one.bound_share or 0.0):.0f} %" if one.bound else None
            rows.append(flat | {"gib": one.memory_bytes / GIB, "told": told})
    return TableData("Decode steps", list(_columns(rows)), rows)


def _columns(rows: Sequence[dict[str, object]]) -> Iterator[Column]:
    yield from (Column("model", "model"), Column("batch", "batch"), Column("context", "context", "tokens", format=","))
    yield Column("system", "system")
    yield Column("gib", "memory", "GiB", format=",.0f")
    yield Column("step_ms", "step", "ms", format=",.3f")
    yield Column("tokens_per_s", "throughput", "tokens/s", format=",.1f")
    yield Column("mj_per_token", "energy of a token", "mJ", format=",.1f")
    for part in (*PARTS, WHOLE):
        if any(row[f"{part} [mJ]"] is not None for row in rows):
            yield Column(f"{part} [mJ]", part, "mJ", format=",.1f")
    yield Column("told", "bound")


def _refused(found: Sequence[Found]) -> TableData:
    """A system's reason once for each model, at the first workload that has it."""
    seen: dict[tuple[str, str], Found] = {}
    for one in found:
        if one.reason:
            seen.setdefault((one.system, one.workload.model), one)
    rows = [{"system": one.system, "workload": str(one.workload), "reason": one.reason} for one in seen.values()]
    return TableData(
        "First workload of each model that a system does not run",
        [Column("system", "system"), Column("workload", "workload"), Column("reason", "why")],
        rows,
    )
