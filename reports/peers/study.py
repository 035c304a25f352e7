"""Study `peers`: the same decode steps on all systems that ship, side by side: who wins where, and why."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pimloom.arch.files import prepare_folder
from pimloom.arch.llm import load_llm
from pimloom.arch.name_units import counted
from pimloom.arch.names import list_names
from pimloom.arch.system import load_system
from pimloom.arch.units import GIB, J_PER_MJ
from pimloom.arch.version import __version__
from pimloom.energy.cells import CELLS, bounds_of, known_cells, leaves_open, ranking
from pimloom.reports.compare.cells import sum_text
from pimloom.reports.figures import lines
from pimloom.reports.page import Card, Column, Figure, Page, Section, TableData
from pimloom.reports.peers.steps import Found, Workload, step_on
from pimloom.reports.reproduction import assumptions, counting, write_study
from pimloom.systems.devices.sizes import by_size, most_by_size, size_text

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
    flat = [_flat(one) for one in found]
    columns = dict.fromkeys(name for row in flat for name in row)
    points = [{name: row.get(name) for name in columns} for row in flat]
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
            Section(
                "Who wins where", "winners", f"{WINNERS} {_open(won)}", [_winners(won), _energies(won), _cells(found)]
            ),
            Section("Energy over throughput", "figures", FIGURES, figures),
            Section("Every step", "steps", STEPS, [_steps(found)]),
            Section("What does not run", "refused", REFUSED, [_refused(found)]),
            assumptions(HERE),
        ],
        _cards(won),
        {"pimloom": __version__, "made by": "pimloom report peers"},
    )


WINNERS = (
    "The systems differ in size: the table shows devices, the rate of their data pins, and the systems with most "
    "tokens/s per device and per TB/s of memory. Energies are ranked over the same known cells only."
)
FIGURES = (
    "Lower right is better, between systems with the same known cells. The number after each name is how many of "
    "the twelve it knows. A line joins batches of one system, at the longest context."
)
ORDER = "≤ and ≥: upper and lower bounds of a sum. Systems side by side: the bounds leave their order open."
SIZES = {"device": "a device", "tb_s": "a TB/s of memory"}
STEPS = "All layers; a dash: no figure. Bound: the kind of work that takes longest by itself, at its full rate."
REFUSED = "In the words of the command line."


def _of(work: Workload, found: Sequence[Found]) -> list[Found]:
    """Those that ran it, the fastest first."""
    return sorted((one for one in found if one.workload == work and one.step_ms), key=lambda one: one.step_ms or 0.0)


def _winner(work: Workload, found: Sequence[Found]) -> dict[str, object] | None:
    ran = _of(work, found)
    if not ran:
        return None
    by = {one.system: one for one in ran}
    rates = {one.system: _by_size(one) for one in ran}
    least = ranking({one.system: one.cells for one in ran})
    most = {size: most_by_size(rates, size) for size in SIZES}
    sums = {name: f"{name} {sum_text(one.cells, _j(one))}" for name, one in by.items() if one.cells}
    alike = [
        (
            len(known_cells(by[names[0]].cells or {})),
            _ordered([(sums[name], bounds_of(by[name].cells or {})) for name in names]),
        )
        for names in least.alike
    ]
    return {
        "workload": str(work), "fastest": ran[0].system, "step_ms": ran[0].step_ms,
        "size": size_text(ran[0].devices or 1, ran[0].memory_gb_s or 0.0),
        "device": most["device"], "tb_s": most["tb_s"], "least": least.least,
        "undecided": ", ".join(one.cell for one in least.undecided), "alike": alike,
        "why": _why(ran),
    }  # fmt: skip


def _ordered(sums: Sequence[tuple[str, set[str]]]) -> str:
    """Sums with their bounds as one text, the smallest first, with `<` where bounds do not leave the order open."""
    said = sums[0][0]
    for (_, bounds), (text, others) in pairwise(sums):
        said += f" {'beside' if leaves_open(bounds, others) else '<'} {text}"
    return said


def _by_size(one: Found) -> dict[str, float | None]:
    return by_size(one.tokens_per_s or 0.0, {"device": one.devices, "tb_s": one.memory_gb_s and one.memory_gb_s / 1000})


def _j(one: Found) -> float:
    return (one.mj_per_token or 0.0) * J_PER_MJ


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
        "Who wins, for its size",
        [
            Column("workload", "workload"),
            Column("device", "most tokens/s a device"),
            Column("tb_s", "most tokens/s a TB/s"),
            Column("fastest", "shortest step"),
            Column("size", "its size"),
            Column("step_ms", "its step", "ms", format=",.3f"),
            Column("why", "why the shortest: share of the step that work alone takes"),
        ],
        won,
    )


def _energies(won: Sequence[dict[str, Any]]) -> TableData:
    """The table of systems with the same known cells, by energy per token [mJ]; a row per workload and set of cells."""
    rows = [
        {"workload": row["workload"], "known": f"{known} of {len(CELLS)}", "order": order}
        for row in won
        for known, order in row["alike"]
    ]
    columns = (Column("workload", "workload"), Column("known", "known cells"), Column("order", "energy of a token, mJ"))
    return TableData("Energy of a token over the same cells", columns, rows, ORDER)


def _open(won: Sequence[dict[str, object]]) -> str:
    """The number of workloads in which the least energy is open, and two cells that leave it open."""
    left = [row for row in won if not row["least"]]
    cells = list(dict.fromkeys(cell for row in left for cell in str(row["undecided"]).split(", ")[:2] if cell))
    if not left:
        return ""
    said = f": {' and '.join(cells[:2])}, known for some systems only, decide" if cells else ""
    return f"Which system needs the least energy is open in {len(left)} of {counted(len(won), 'workload')}{said}."


def _cells(found: Sequence[Found]) -> TableData:
    """The known and unknown cells in the energy of each system."""
    by = {one.system: one.cells for one in found if one.cells}
    rows: list[dict[str, object]] = [
        {
            "system": system,
            "known": f"{len(known_cells(cells))} of {len(CELLS)}",
            "unknown": ", ".join(cell for cell in CELLS if not cells[cell].known),
            "bound": " and ".join(sorted(bounds_of(cells))) or None,
            "without": ", ".join(dict.fromkeys(name for cell in cells.values() for name in cell.without)) or None,
        }
        for system, cells in by.items()
    ]
    columns = [Column("system", "system"), Column("known", "known cells"), Column("unknown", "unknown cells")]
    columns += [Column("bound", "a bound"), Column("without", "without")]
    return TableData("What is in the energy of each system", columns, rows, "Cells: see CONVENTIONS.md.")


def _cards(won: Sequence[dict[str, object]]) -> list[Card]:
    """Cards: how often each system wins per size, and the size of the systems with the shortest steps."""
    cards = []
    for size, said in SIZES.items():
        names = [str(row[size]) for row in won if row[size]]
        for name in sorted(set(names), key=lambda name: (-names.count(name), name)):
            cards.append(Card(f"{name}: most tokens/s {said}", f"{names.count(name)} of {len(won)}", "", "workloads"))
    sized = [(str(row["fastest"]), str(row["size"])) for row in won]
    for one in sorted(set(sized), key=lambda one: (-sized.count(one), one)):
        name, size = one
        said = f"{sized.count(one)} of {len(won)}"
        cards.append(Card(f"{name}, of {size}, has the shortest step", said, "", "workloads"))
    return cards


def _figure(model: str, context: int, found: Sequence[Found]) -> Figure | None:
    series: dict[str, list[tuple[float, float]]] = {}
    for one in found:
        here = one.workload.model == model and one.workload.context == context
        if here and one.tokens_per_s and one.mj_per_token:
            known = len(known_cells(one.cells or {}))
            series.setdefault(f"{one.system}, {known}", []).append((one.tokens_per_s, one.mj_per_token))
    if not series:
        return None
    return lines(
        f"{model}, {context:,} tokens", series, xlabel="throughput [tokens/s]", ylabel="energy of a token [mJ]",
        log_x=True, log_y=True,
    )  # fmt: skip


def _flat(one: Found) -> dict[str, object]:
    model, batch, context = one.workload
    cells = {f"{key} [mJ]": cell.j / J_PER_MJ for key, cell in (one.cells or {}).items() if cell.j is not None}
    known = {"unknown": ", ".join(cell for cell in CELLS if not one.cells[cell].known)} if one.cells else {}
    sizes = {f"tokens_per_s per {size}": rate for size, rate in _by_size(one).items()} if one.step_ms else {}
    return {
        "model": model, "batch": batch, "context": context, "system": one.system, "step_ms": one.step_ms,
        "tokens_per_s": one.tokens_per_s, "mj_per_token": one.mj_per_token, **cells, **known,
        "devices": one.devices, "memory_gb_s": one.memory_gb_s, **sizes,
        "memory_bytes": one.memory_bytes, "bound": one.bound, "bound_share": one.bound_share, "reason": one.reason,
    }  # fmt: skip


def _steps(found: Sequence[Found]) -> TableData:
    rows = []
    for one in found:
        if one.step_ms is not None and one.memory_bytes is not None:
            flat = _flat(one)
            told = f"{one.bound} {100 * (one.bound_share or 0.0):.0f} %" if one.bound else None
            mj = one.cells and sum_text(one.cells, _j(one))
            rows.append(flat | {"gib": one.memory_bytes / GIB, "told": told, "mj": mj})
    return TableData("Decode steps", list(_columns()), rows)


def _columns() -> Iterator[Column]:
    yield from (Column("model", "model"), Column("batch", "batch"), Column("context", "context", "tokens", format=","))
    yield Column("system", "system")
    yield Column("devices", "devices")
    yield Column("memory_gb_s", "memory", "GB/s", format=",.0f")
    yield Column("gib", "memory", "GiB", format=",.0f")
    yield Column("step_ms", "step", "ms", format=",.3f")
    yield Column("tokens_per_s", "throughput", "tokens/s", format=",.1f")
    yield Column("tokens_per_s per device", "a device", "tokens/s", format=",.1f")
    yield Column("tokens_per_s per tb_s", "a TB/s", "tokens/s", format=",.1f")
    yield Column("mj", "energy of a token", "mJ", align="right")
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
