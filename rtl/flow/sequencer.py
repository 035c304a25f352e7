# amaranth: UnusedElaboratable=no
"""The sequencer as `rtl emit` writes it, between streams of commands and the engine, clock by clock."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pimloom.arch.part import Organization, Part
from pimloom.arch.table import Table, standard_of
from pimloom.cycle_sim.dram.words import describe
from pimloom.rtl.flow.cosim import TOP, Case, Walk, walk
from pimloom.rtl.flow.coverage import coverage, reasons
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.stimulus import draw_ends, draw_held, draw_own_cases, draw_tour, engine, own_table
from pimloom.rtl.flow.verified import Progress, Verified, wave_file
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.verilog import to_verilog

SPARE_CK = 1000  # clocks of a case beyond those of the model


def verify_sequencer(
    name: str,
    part: Part,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Progress,
    organization: Organization | None = None,
    refresh: str = "all_bank",
) -> Verified:
    """Streams of random commands through the emitted Verilog and through the engine, with the part's own timings.

    organization: of the banks, None: the part's own. Rules that never decided a clock are named with the reason.
    """
    progress(0, 3)
    geometry = organization or part.organization
    block = Sequencer(own_table(part, geometry), refresh=refresh)
    cases = list(draw_own_cases(part, geometry, commands, seed, block.apart))
    cases += corners(cases[0].table, geometry, seed, block.apart)
    verilog = to_verilog(block, TOP)
    progress(1, 3)
    wrong, first, file, most = 0, None, waves, most_ck(cases)
    found = walk(cases, 1, 0, most_ck=most, simulator=simulator, verilog=verilog, waves=waves)
    progress(2, 3)
    for case, each in zip(cases, found.walks, strict=True):
        n, sentence = mismatches(case, each)
        if n and not wrong:
            first = sentence
            if not waves:
                file = wave_file("sequencer", name, seed)
                walk([case], 1, 0, most_ck=most, simulator=simulator, verilog=verilog, waves=file)
        wrong += n
    rules = standard_of(part).rules
    decided = coverage(rules, cases)
    asleep = reasons(rules, block.table, geometry, [rule for rule, case in decided.items() if case is None])
    clocks = sum(each.clocks for each in found.walks)
    progress(3, 3)
    return Verified(
        "sequencer", name, simulator, sum(len(s) for case in cases for s in case.streams), wrong,
        len(decided) - len(asleep), len(decided), asleep, clocks, clocks / found.seconds,
        first, str(file) if file else None, decided,
    )  # fmt: skip


def corners(table: Table, geometry: Organization, seed: int, apart_ck: int) -> list[Case]:
    """Cases that random ones seldom are: rows of all banks, a row that a refresh keeps closed, and streams that cannot
    end."""
    usual = [make(table, geometry, seed)._replace(apart_ck=apart_ck) for make in (draw_tour, draw_held)]
    return [*usual, *draw_ends(table, geometry, seed, apart_ck)]


def most_ck(cases: Sequence[Case]) -> int:
    """Clocks that none of the cases should need."""
    last = max((int(clocks.max(initial=0)) for case in cases for clocks in engine(case).issue_ck), default=0)
    releases = max((int(s["release"].max(initial=0)) for case in cases for s in case.streams), default=0)
    return max(last, releases) + int(cases[0].table.rules.wait.max(initial=0)) + SPARE_CK


def mismatches(case: Case, found: Walk) -> tuple[int, str]:
    """Commands whose issue clock differs from the engine's, and a sentence about the first."""
    model = engine(case)
    wrong: list[tuple[int, str]] = []
    for s, (rows, want, got) in enumerate(zip(case.streams, model.issue_ck, found.issue_ck, strict=True)):
        of = f" of stream {s}" if len(case.streams) > 1 else ""
        for i in range(max(len(want), len(got))):
            mine, its = (int(clocks[i]) if i < len(clocks) else None for clocks in (got, want))
            if mine != its:
                said = "never issued" if mine is None else f"issued at CK {mine}"
                says = "never" if its is None else its
                clock = min(ck for ck in (mine, its) if ck is not None)
                wrong.append((clock, f"command {i}{of} ({describe(case.table, rows[i])}) {said}, model says {says}"))
    if wrong:
        return len(wrong), min(wrong)[1]
    if (found.starved, found.stuck) != (model.end == "starved", model.end == "stuck"):
        ended = "starved" if found.starved else "stuck" if found.stuck else "done"
        return 1, f"after its last command the block is {ended}, model says {model.end}"
    if not found.echoed:
        return 1, "a command left the bus other than it came"
    if not np.array_equal(found.refresh_ck, model.refresh_ck):
        at = found.refresh_ck[:, 0].tolist()
        return 1, f"{case.table.refresh} issued at CK {at}, model says {model.refresh_ck[:, 0].tolist()}"
    return 0, ""
