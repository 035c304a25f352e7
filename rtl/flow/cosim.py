# amaranth: UnusedElaboratable=no
"""The same command streams through the sequencer's gates and through the engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.arch.table import Rules, Table
from pimloom.rtl.command import command_layout
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.ports import pack
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.verilog import to_verilog

BENCH = "pimloom.rtl.flow.benches.sequencer"
TOP = "sequencer"


class Case(NamedTuple):
    """What runs on a channel; streams: STREAM arrays, every row one command (count 1)."""

    table: Table
    streams: list[np.ndarray]
    refresh: bool = True
    due_ck: int | None = None
    apart_ck: int = 0


class Walk(NamedTuple):
    """What the gates did with a case: issue clocks per stream, (clock, node) of each REFab, and how it ended."""

    issue_ck: list[np.ndarray]
    refresh_ck: np.ndarray
    clocks: int
    starved: bool
    stuck: bool
    echoed: bool  # every command left the bus as it came


class Walks(NamedTuple):
    """All cases, and the wall time of the simulation without its start [s]."""

    walks: list[Walk]
    seconds: float


def walk(
    cases: Sequence[Case],
    streams: int,
    bits: int,
    *,
    most_ck: int,
    simulator: Simulator = "verilator",
    waves: Path | None = None,
    verilog: str | None = None,
) -> Walks:
    """Run cases of one geometry and standard, whose waits fit into `bits`, on one netlist with `streams` streams.

    bits 0: the netlist of one table, whose waits are constants, with refresh as it says. verilog: the netlist, where
    there is one already.
    """
    table = cases[0].table
    if any(case.table.names != table.names or _shape(case.table.rules) != _shape(table.rules) for case in cases):
        raise ValueError("cases of one run must share commands and geometry")
    if bits and max(int(case.table.rules.wait.max(initial=0)) for case in cases) >= 1 << bits:
        raise ValueError(f"a wait does not fit into {bits} bits")
    if not bits and any(c.table is not table or not c.refresh or c.due_ck is not None for c in cases):
        raise ValueError("without bits for waits, cases share one table and its refresh")
    if not verilog or not bits:
        refresh = "staggered" if not bits and cases[0].apart_ck else "all_bank"
        block = Sequencer(table, streams, bits, refresh)
        if not bits and any(case.apart_ck != block.apart for case in cases):
            raise ValueError("without bits for waits, refreshes are as far apart as in the netlist")
        verilog = verilog or to_verilog(block, TOP)
    found = simulate(verilog, TOP, BENCH, _given(cases, streams, bits, most_ck), simulator=simulator, waves=waves)
    return Walks([_walk(case, i, found) for i, case in enumerate(cases)], float(found["seconds"]))


def _shape(rules: Rules) -> tuple[list[int], int, int]:
    return rules.size.tolist(), rules.rows, rules.columns


def _given(cases: Sequence[Case], streams: int, bits: int, most_ck: int) -> dict[str, np.ndarray]:
    rows = [(c.refresh, c.table.rules.refi, _due(c), c.apart_ck, most_ck) for c in cases]
    flat = [(case, s) for case in cases for s in case.streams]
    return {
        "cases": np.array(rows, np.int64),
        "waits": np.array([case.table.rules.wait if bits else [] for case in cases], np.int64),
        "sizes": np.array([[len(s) for s in c.streams] + [0] * (streams - len(c.streams)) for c in cases], np.int64),
        "payloads": np.concatenate([pack(command_layout(case.table), s) for case, s in flat]),
        "releases": np.concatenate([s["release"] for _, s in flat]).astype(np.int64),
        "nodes": np.array(_nodes(cases[0].table.rules)),
        "buses": np.array(int(cases[0].table.rules.bus.max()) + 1),
    }


def _due(case: Case) -> int:
    return case.table.rules.refi if case.due_ck is None else case.due_ck


def _nodes(rules: Rules) -> int:
    return int(rules.size[rules.scope[rules.refresh]]) if rules.refresh >= 0 else 0


def _walk(case: Case, number: int, found: dict[str, np.ndarray]) -> Walk:
    mine = found["issued"][found["issued"][:, 0] == number]
    nodes, (clocks, starved, stuck) = _nodes(case.table.rules), found["ends"][number].tolist()
    per = [mine[mine[:, 1] == nodes + s] for s in range(len(case.streams))]
    echoed = all(
        (x[:, 3] == pack(command_layout(case.table), s)[: len(x)]).all() for x, s in zip(per, case.streams, strict=True)
    )
    refresh = mine[mine[:, 1] < nodes][:, [2, 1]]
    return Walk([x[:, 2] for x in per], refresh, clocks, bool(starved), bool(stuck), echoed)
