"""Lines of `make bench` about the RTL: clocks per second of the gates in each simulator, and of the engine."""

import shutil

import numpy as np

from pimloom.arch.system import load_part
from pimloom.cycle_sim.dram.stream import Engine
from pimloom.rtl.flow.cosim import Case, walk
from pimloom.rtl.flow.simulator.environment import SIMULATORS
from pimloom.rtl.flow.stimulus import draw_cases, engine, own_table, shrink
from tests.bench import best_of
from tests.netlists import BANKS, STREAMS, WAIT_BITS

PART, COMMANDS = "gddr6_pim_gpt", 5000


def same_stream() -> tuple[list[Case], int]:
    """Cases with the part's own timings, and the clocks that they take together."""
    part = load_part(PART).value
    own = own_table(part, shrink(part, *BANKS))
    cases = [
        case
        for case in draw_cases(part, shrink(part, *BANKS), STREAMS, 4 * COMMANDS, seed=0)
        if np.array_equal(case.table.rules.wait, own.rules.wait)
    ]
    clocks = 0
    for case in cases:
        clocks += max(int(issued.max(initial=0)) + 1 for issued in engine(case).issue_ck)
    return cases, clocks


def rtl_lines() -> list[tuple[str, str, str]]:
    """(what, measured, target) of the sequencer at 2 x 2 banks, two streams."""
    cases, clocks = same_stream()
    issue = Engine(cases[0].table).issue

    def run() -> None:
        for case in cases:
            issue(case.streams, refresh=case.refresh, due_ck=case.due_ck, apart_ck=case.apart_ck)

    rate = clocks / best_of(3, run)
    lines = [("co-simulation stream, engine", f"{rate / 1e6:.2f} M cycles/s", "–")]
    for simulator in SIMULATORS:
        if simulator == "icarus" and shutil.which("iverilog") is None:
            lines.append((f"the same, RTL in {simulator}", "not installed", "–"))
            continue
        found = walk(cases, STREAMS, WAIT_BITS, most_ck=10**6, simulator=simulator)
        speed = sum(w.clocks for w in found.walks) / found.seconds
        lines.append(
            (f"the same, RTL in {simulator}", f"{speed / 1e3:.1f} k cycles/s, engine {rate / speed:,.0f} x", "–")
        )
    return lines
