"""Study `serving`: what decoding transforms gain beside what is published, and what changes when the machine is PIM."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pimloom.arch.files import prepare_folder, table_csv
from pimloom.arch.version import __version__
from pimloom.reports import figures
from pimloom.reports.page import Card, Column, Figure, Page, Section, TableData
from pimloom.reports.reproduction import assumptions, counting, gated, passed_cards, rows_of, write_study
from pimloom.reports.serving import (
    branching,
    distserving,
    narrowing,
    overlapping,
    planning,
    pooling,
    routing,
    scheduling,
    searching,
    sharing,
    speculation,
    spreading,
    streaming,
)
from pimloom.reports.serving.answer import WHAT, answer, cards
from pimloom.reports.serving.machines import LOADS, crossings, lines_of, machines
from pimloom.reports.serving.rows import Row, missing
from pimloom.systems.pool import run_all

HERE = Path(__file__).parent
Progress = Callable[[int, int], None]
Part = Callable[[], Iterator[Row]]
PARTS: Mapping[str, Sequence[Part]] = {
    "Schedulers": (scheduling.rules, scheduling.flover, scheduling.rlhfuse, scheduling.compiler),
    "Plans": (planning.apex, spreading.energon, spreading.tpi),
    "Experts": (routing.exflow, routing.throughput, routing.speculative),
    "Pools": (distserving.small, distserving.large, distserving.beside, pooling.splitwise),
    "Shares": (sharing.semi_pd, sharing.attained, sharing.flexllm, sharing.muxflow),
    "Overlap": (overlapping.nanoflow, overlapping.tokenweave, overlapping.throughput,
                overlapping.sub_batches),
    "Drafts": (speculation.chains, speculation.medusa, speculation.prism, speculation.mirrored),
    "Branches": (branching.multiverse, branching.hogwild, branching.threads, branching.paths, streaming.streams,
                 branching.stopping, searching.search),
    "Few bits": (narrowing.marlin, narrowing.qsync),
    "Sparse attention": (narrowing.sale, narrowing.adaspa, narrowing.dsv, narrowing.in_rows),
}  # fmt: skip
LONG = (speculation.chains, speculation.medusa)  # of these parts; they begin first
INTRO = {
    "Schedulers": "Who is in an iteration. Rules are the programs' own, to the tick; times those of a roofline.",
    "Plans": "How a model lies on several devices, and what of it lies elsewhere.",
    "Experts": "Tokens go to the devices of their experts. Routes are synthetic.",
    "Pools": "Prompts on some devices and decode on others, whose caches cross a link. What DistServe gains depends on "
    "what vLLM is taken to be: on one device or on more, as its authors first profiled it, or as they simulate it.",
    "Shares": "Prompts beside decode, or other work beside requests, on parts of one machine.",
    "Overlap": "Operators of an iteration that want compute, memory and the link at different times.",
    "Drafts": "A check of drafts is one step of several rows. A processor that waits for its weights takes them all in "
    "little more than the time of one; banks that multiply a row at a time take each as long as a step.",
    "Branches": "Branches are rows, too. What they share may be read once or by each: on PIM each has a copy.",
    "Few bits": "Bytes of weights are what a decode step waits for. Banks have nothing that widens them.",
    "Sparse attention": "What is not looked at is neither read nor computed, if it lies in rows of its own.",
}
COLUMNS = (
    Column("what", "what"), Column("machine", "where"), Column("shown", "ours", align="right"),
    Column("published", "published", align="left"), Column("verdict", "verdict", verdict=True),
    Column("tolerance", "tolerance"), Column("basis", "basis"), Column("tag", "evidence"),
)  # fmt: skip
LEFT_OUT = "left out of this run"
NOT_COMPUTED = "Not computed"
DRAWN = {  # section: title of its figure, rows that are in it, labels
    "Drafts": ("Where drafts stop to pay", re.compile(r"^gain, gamma.* \| (?P<who>.*), batch (?P<at>\d+)$"),
               "batch [requests]", "gain [-]"),
    "Shares": ("Requests within semi-PD's limits over load",
               re.compile(r"^(?P<who>.*): requests within .*, (?P<at>\d+) requests/s"), "load [requests/s]",
               "requests within limits [%]"),
}  # fmt: skip


def run_study(
    out: str | Path,
    progress: Progress,
    parts: Mapping[str, Sequence[Part]] = PARTS,
    systems: Sequence[str] | None = None,
    loads: Sequence[float] = LOADS,
) -> Path:
    """Make every row, serve the trace on all machines or on those named, and write the report into folder `out`;
    returns the page. Raises GateError, when all is written, if a formula does not hold."""
    folder = prepare_folder(out)
    named = [one for one in machines() if systems is None or one.system in systems]
    count = counting(sum(map(len, parts.values())) + len(named), progress)
    lines = lines_of(named, loads, count)
    points = [point for one in lines for point in one.points]
    changes = [change for what in WHAT for change in crossings(points, what)]
    first = [answer(lines, points, changes)] if lines else []
    found = _found(parts, count)
    done = {row["system"] for rows in found.values() for row in rows}
    found[NOT_COMPUTED] = [missing(one["system"], LEFT_OUT) for one in listed() if one["system"] not in done]
    every = [{"part": name} | row for name, rows in found.items() for row in rows]
    checks = [{"check": f"{row['system']}: {row['what']}", **row} for row in every if row["tolerance"] != "shown only"]
    page = _page(found, checks, first, cards(points))
    flat = [point._asdict() | {"sign": point.sign.strip()} for point in points]
    more = {"machines.csv": table_csv(flat, {})} if flat else {}
    return gated(write_study(folder, page, every, every, checks, more), checks)


def _found(parts: Mapping[str, Sequence[Part]], count: Callable[[], None]) -> dict[str, list[Row]]:
    """Rows by section, in their order; made on all cores, those first that take longest."""
    jobs = [(name, i, part) for name, some in parts.items() for i, part in enumerate(some)]
    made = dict[tuple[str, int], list[Row]]()
    for (name, i, _), rows in run_all(_rows, sorted(jobs, key=lambda job: job[2] not in LONG)):
        made[name, i] = rows
        count()
    return {name: [row for i in range(len(some)) for row in made[name, i]] for name, some in parts.items()}


def _rows(job: tuple[str, int, Part]) -> list[Row]:
    return list(job[2]())


def listed() -> list[dict[str, str]]:
    """All studies: `system`, `group`, and which of its `inputs` are synthetic."""
    return rows_of(HERE, "systems.csv")


def _page(
    found: Mapping[str, Sequence[Row]], checks: Sequence[Row], first: Sequence[Section], winners: Sequence[Card]
) -> Page:
    sections = [
        Section(
            name, name.lower().replace(" ", "-"), INTRO.get(name, ""), [*_figures(name, rows), *_tables(name, rows)]
        )
        for name, rows in found.items()
        if rows
    ]
    return Page(
        "Serving",
        "Which machine serves a trace best for a joule and for a dollar, and what schedulers, pools, drafts, branches, "
        "few bits and sparse attention change: ours beside what is published.",
        [*first, *sections, assumptions(HERE)],
        [*winners, *passed_cards(checks, lambda check: "what is published")],
        {"pimloom": __version__, "made by": "pimloom report serving"},
    )


def _tables(name: str, rows: Sequence[Row]) -> Iterator[TableData]:
    """One for each system; what says nothing in it is left out."""
    if name == NOT_COMPUTED:
        yield TableData(name, (Column("system", "system"), Column("what", "why")), rows)
        return
    inputs = {one["system"]: one["inputs"] for one in listed()}
    for system in dict.fromkeys(str(row["system"]) for row in rows):
        mine = [row | {"shown": f"{row['ours']} {row['unit']}".strip()} for row in rows if row["system"] == system]
        checked = any(row["tolerance"] != "shown only" for row in mine)
        some = [column for column in COLUMNS if column.key != "machine" or any(row["machine"] for row in mine)]
        some = [column for column in some if column.key != "tolerance" or checked]
        yield TableData(system, some, mine, inputs.get(system, ""))


def _figures(name: str, rows: Sequence[Row]) -> list[Figure]:
    """Gain of drafts over batches, and requests within limits over loads, by who has them."""
    if name not in DRAWN:
        return []
    title, found, xlabel, ylabel = DRAWN[name]
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if match := found.search(f"{row['what']} | {row['machine']}"):
            series.setdefault(match["who"], []).append((float(match["at"]), float(str(row["value"]))))
    return [figures.lines(title, series, xlabel=xlabel, ylabel=ylabel, log_x=True)] if series else []
