"""`pimloom rtl verify sequencer_axi`: a host with random stalls, against the map and the engine."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pimloom.arch.part import Part
from pimloom.rtl.axi import DEPTH, SequencerAxi
from pimloom.rtl.flow.axi.host import Script, draw_scripts, given
from pimloom.rtl.flow.axi.model import Seen, mismatches, released
from pimloom.rtl.flow.axi.phases import late_or_illegal
from pimloom.rtl.flow.coverage import coverage, reasons
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.flow.stimulus import shrink
from pimloom.rtl.flow.verified import Verified, wave_file
from pimloom.rtl.verilog import to_verilog

BENCH, TOP = "pimloom.rtl.flow.benches.axi", "sequencer_axi"
BANKS = (2, 2)
MOST_CK = 200_000  # of a case
SHALLOW = 2  # a queue that is often full


def play(
    scripts: Sequence[Script],
    block: SequencerAxi,
    simulator: Simulator,
    waves: Path | None = None,
    verilog: str | None = None,
) -> tuple[list[Seen], int, float]:
    """What the gates did with each script; clocks in all; seconds. verilog: the block's, where there is some."""
    fixed = {
        "depth": block.depth,
        "buses": len(block.buses),
        "nodes": block.nodes,
        "phases": block.phases,
        "most": MOST_CK,
    }
    arrays = given(list(scripts)) | {name: np.array(value) for name, value in fixed.items()}
    found = simulate(verilog or to_verilog(block, TOP), TOP, BENCH, arrays, simulator=simulator, waves=waves)
    written, read, issued = (
        [found[name][found[name][:, 0] == case][:, 1:] for case in range(len(scripts))]
        for name in ("written", "read", "issued")
    )
    ends = found["ends"]
    seen = [Seen(*parts) for parts in zip(written, read, issued, ends[:, 1].astype(bool).tolist(), strict=True)]
    return seen, int(ends[:, 0].sum()), float(found["seconds"])


def wrong(script: Script, seen: Seen, depth: int, phases: int) -> list[str]:
    """A sentence for everything that is not as it must be."""
    return mismatches(script, seen, depth) if phases == 1 else late_or_illegal(script, seen, phases)


def verify_axi(
    name: str,
    part: Part,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Callable[[int, int], None],
    phases: int = 1,
) -> Verified:
    """Random streams, written and read by a host: responses, words, and clocks of issue. Of five commands four with
    refreshes close to each other and a queue that is often full, one with the part's own interval and `DEPTH`. With
    several phases the trace is legal, each command in its first legal CK, of a part whose rules wait longer."""
    progress(0, 3)
    own = commands // 5
    halves = [(commands - own, True, SHALLOW), (own, False, DEPTH)]
    slow = 1 if phases == 1 else 2 * phases
    sets = [(list(draw_scripts(part, BANKS, n, seed, often, slow)), depth) for n, often, depth in halves if n]
    broken, cases, cycles, seconds, file = list[str](), [], 0, 0.0, waves
    for done, (scripts, depth) in enumerate(sets, start=1):
        block = SequencerAxi(part, depth, scripts[0].told.part, phases)
        seen, clocks, took = play(scripts, block, simulator, waves if done == 1 else None)
        cycles, seconds = cycles + clocks, seconds + took
        found = [wrong(*pair, depth, phases) for pair in zip(scripts, seen, strict=True)]
        first = next((i for i, sentences in enumerate(found) if sentences), None)
        if first is not None and not broken:
            file = waves or wave_file(TOP, name, seed)
            play([scripts[first]], SequencerAxi(part, depth, scripts[0].told.part, phases), simulator, file)
        broken += [sentence for sentences in found for sentence in sentences]
        cases += [released(*pair) for pair in zip(scripts, seen, strict=True)]
        progress(done, 3)
    rules, table = sets[0][0][0].told.rules, sets[0][0][0].told.table
    decided = coverage(rules, cases) if not broken else {}
    asleep = reasons(rules, table, shrink(part, *BANKS), [rule for rule, case in decided.items() if case is None])
    progress(3, 3)
    return Verified(
        TOP, name, simulator, sum(len(case.streams[0]) for case in cases), len(broken),
        len(decided) - len(asleep), len(decided), asleep, cycles, cycles / seconds,
        broken[0] if broken else None, str(file) if file else None, decided or None,
    )  # fmt: skip
