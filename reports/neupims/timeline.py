"""A timeline of one layer with sub-batches: NPU, vector units, command bus and row buffers of every channel."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import Level, Role
from pimloom.arch.llm import load_llm
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import load_system
from pimloom.arch.table import compile_table
from pimloom.arch.units import PS_PER_US
from pimloom.cycle_sim.npu_pim.machine import Ran, run
from pimloom.cycle_sim.npu_pim.places import ACTIVATE, PLACE, PRECHARGE, names_of
from pimloom.mappers.interleave import Stage
from pimloom.mappers.interleave import stages as interleaved
from pimloom.reports.neupims.points import CONTENDERS, Scope
from pimloom.reports.page import Figure, Section
from pimloom.reports.spans import Span, spans
from pimloom.systems.devices.npu_pim.laid import lay_out
from pimloom.systems.devices.npu_pim.serve import PORTS
from pimloom.systems.devices.npu_pim.stage_times import merged
from pimloom.systems.timeline import Event, Track, trace_json

EACH = 2  # requests of a channel, one for each sub-batch
GAP_CK = 64  # reads and writes that are no further apart are drawn as one
BUS_CK = 600  # window of single commands
DRAWN = 4  # channels in the figure
NPU_ROWS = {"arrays": ("qkv", "projection", "ffn1", "ffn2", "router"), "PIM operators": ("logit", "attend")}


class Op(NamedTuple):
    """An operator: its stage, name, sub-batch, row and clocks."""

    stage: str
    name: str
    half: int
    row: str
    start: int
    end: int


class Recorded(NamedTuple):
    """A layer that was simulated with its commands. names: of those at each place of the kernels; per_group: banks that
    PIM opens at once."""

    title: str
    operators: list[Op]
    stages: dict[str, int]
    logs: tuple[np.ndarray, ...]
    tck_ps: int
    names: tuple[str, ...]
    per_group: int


def record(scope: Scope) -> Recorded:
    """Simulate a layer of the scope's traced model, two requests in each channel."""
    model, tp, context = scope.traced
    system, llm = load_system(CONTENDERS["neupims"].system), load_llm(model)
    spec = system.of_kind(NpuPimSystem)
    channels = spec.dram.channels
    tokens, channel = np.full(EACH * channels, context), np.arange(EACH * channels) % channels

    def ran(log: int) -> tuple[Ran, dict[str, list[int]]]:
        laid = lay_out(system, llm, tokens, channel, tp=tp, layers=1)
        return run(laid.spec, channels, laid.npu, laid.layer.builder, ports=PORTS, log=log), laid.layer.stages

    found, stages = ran(ran(0)[0].busiest)
    title = f"{model}, tensor parallel over {tp}, {len(tokens)} requests of {context:,} tokens"
    plan = {stage.name: stage for stage in interleaved(spec.interleave.sub_batches)}
    operators, first, begin, begins = [], 0, 0, {}
    for stage, last in stages.items():
        begins[stage] = begin
        for name, start, end in merged(found.operators[first : max(last) + 1]):
            operators.append(_operator(plan[stage], name, start, end))
        first, begin = max(last) + 1, max(found.operators[o][2] for o in last)
    assert system.part is not None
    names = names_of(compile_table(system.part))
    per_group = system.part.organization.banks_per_group
    return Recorded(title, operators, begins, found.logs, system.part.tCK_ps, names, per_group)


def _operator(stage: Stage, name: str, start: int, end: int) -> Op:
    row = next((row for row, names in NPU_ROWS.items() if name in names), "vector units")
    on_npu = stage.qkv[0] if stage.through is None else stage.through
    half = stage.attention if row == "PIM operators" else on_npu
    assert half is not None
    return Op(stage.name, name, half + 1, row, start, end)


def mem_bursts(log: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Start, end [CK] and number of reads and writes that follow each other closely."""
    clock = log[np.isin(log[:, 1], [PLACE[role] for role in (Role.READ, Role.WRITE)]), 0]
    yield from ((int(x[0]), int(x[-1]) + 1, len(x)) for x in np.split(clock, _breaks(clock)) if len(x))


def _breaks(clock: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.diff(clock) > GAP_CK) + 1


def pim_rows(log: np.ndarray, banks: int) -> Iterator[tuple[int, int]]:
    """Start and end [CK] of times in which a PIM row buffer of the channel holds a row; `banks` open at once."""
    opened, closed = (log[:, 1] == place for place in (ACTIVATE[Level.BANK_GROUP], PRECHARGE[1]))
    change = banks * opened - closed.astype(np.int64)
    which = np.flatnonzero(change)
    held, start = 0, 0
    for clock, by in zip(log[which, 0].tolist(), change[which].tolist(), strict=True):
        if held == 0 and by > 0:
            start = clock
        held += by
        if held == 0:
            yield start, clock


def trace(found: Recorded) -> str:
    """The timeline as trace-event JSON; single commands only in a window of stage C."""
    tck, channels = found.tck_ps, range(len(found.logs))
    rows = ("arrays", "vector units", "PIM operators")
    tracks = [Track(row, "NPU") for row in rows]
    names = ("command bus", "MEM row buffers", "PIM row buffers")
    tracks += [Track(name, f"channel {c}") for c in channels for name in names]
    events = [
        Event(Track(op.row, "NPU"), op.name, op.start * tck, (op.end - op.start) * tck, _info(op))
        for op in found.operators
    ]
    low, high = window(found)
    for c, log in enumerate(found.logs):
        bus, mem, pim = (Track(name, f"channel {c}") for name in names)
        for clock, command, bank, row in log[(log[:, 0] >= low) & (log[:, 0] < high)].tolist():
            events.append(Event(bus, found.names[command], clock * tck, tck, {"bank": bank, "row": row}))
        for start, end, n in mem_bursts(log):
            events.append(Event(mem, "reads and writes", start * tck, (end - start) * tck, {"accesses": n}))
        for start, end in pim_rows(log, found.per_group):
            events.append(Event(pim, "row open", start * tck, (end - start) * tck))
    return trace_json(tracks, events, {"title": found.title, "command bus in clocks": f"{low} to {high}"})


def _info(op: Op) -> dict[str, object]:
    return {"stage": op.stage, "sub-batch": op.half}


def window(found: Recorded) -> tuple[int, int]:
    """Clocks in which single commands are shown: while both sub-batches work in stage C."""
    start = max(op.start for op in found.operators if op.stage == "C" and op.name in ("projection", "logit"))
    return start + BUS_CK, start + 2 * BUS_CK


def section(found: Recorded) -> Section:
    """The layer and a window of single commands as figures."""
    intro = (
        f"{found.title}, physical, sub-batches interleaved: stages A to F, which are two layers. "
        "`timeline.json` has the same for Perfetto (ui.perfetto.dev): NPU, vector units, and of every channel its "
        "command bus in a window, its MEM and its PIM row buffers."
    )
    return Section("Timeline", "timeline", intro, [_layer(found), _commands(found)])


def _layer(found: Recorded) -> Figure:
    us = found.tck_ps / PS_PER_US
    rows: dict[str, list[Span]] = {row: [] for row in ("arrays", "vector units", "PIM operators")}
    for op in found.operators:
        rows[op.row].append(Span(op.start * us, op.end * us, HALVES[op.half]))
    halves = [(op.start, op.end, op.half) for op in found.operators if op.row == "PIM operators"]
    for c, log in enumerate(found.logs[:DRAWN]):
        rows[f"channel {c}, MEM rows"] = [Span(a * us, b * us, MEM_KIND) for a, b, _ in mem_bursts(log)]
        rows[f"channel {c}, PIM rows"] = [
            Span(a * us, b * us, HALVES[_half(halves, a)]) for a, b in pim_rows(log, found.per_group)
        ]
    return spans(
        "Two layers, interleaved",
        rows,
        xlabel="time [µs]",
        marks={name: start * us for name, start in found.stages.items()},
        caption=f"Letters: stages. In C and D, PIM works on one sub-batch while the NPU works on the other. The first "
        f"{DRAWN} of {len(found.logs)} channels; MEM rows: reads and writes, gaps of up to {GAP_CK} clocks closed; PIM "
        "rows: a row is open, the last one until a refresh.",
    )


HALVES = {1: "sub-batch 1", 2: "sub-batch 2"}
MEM_KIND = "reads and writes of the NPU"


def _half(halves: Sequence[tuple[int, int, int]], at: int) -> int:
    """The sub-batch whose operator on PIM had started last at clock `at`."""
    return max((start, half) for start, _, half in halves if start <= at)[1]


SHOWN = {
    "reads and writes": (PLACE[Role.READ], PLACE[Role.WRITE]),
    "rows of MEM": (ACTIVATE[Level.BANK], PRECHARGE[0]),
    "PIM commands": (PLACE[Role.ANNOUNCE], PLACE[Role.GEMV]),
    "rows of PIM": (ACTIVATE[Level.BANK_GROUP], PRECHARGE[1]),
}


def _commands(found: Recorded) -> Figure:
    low, high = window(found)
    log = found.logs[0]
    log = log[(log[:, 0] >= low) & (log[:, 0] < high)]
    rows: dict[str, list[Span]] = {}
    for row, places in SHOWN.items():
        mine = log[np.isin(log[:, 1], places)]
        rows[row] = [Span(clock, clock + 1, found.names[command]) for clock, command in mine[:, :2].tolist()]
    return spans(
        "The command bus of one channel",
        {row: some for row, some in rows.items() if some},
        xlabel="clock [CK]",
        caption=f"Channel 0, {high - low} clocks of stage C. A PIM_GEMV is one command for up to 32 COMPs, so that "
        "reads for the NPU go on between PIM commands. At most one command issues in a clock.",
    )
