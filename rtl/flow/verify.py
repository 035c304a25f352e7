# amaranth: UnusedElaboratable=no
"""`pimloom rtl verify`: blocks of the RTL against the models they are read from, on random input."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import Rule
from pimloom.arch.error import UserError
from pimloom.arch.optics import Optics
from pimloom.arch.part import Part
from pimloom.arch.table import bend, standard_of
from pimloom.cycle_sim.dram.words import describe
from pimloom.rtl.blocks import BLOCKS, OCSTRX
from pimloom.rtl.flow.axi.verify import verify_axi
from pimloom.rtl.flow.channel import mismatches as channel_mismatches
from pimloom.rtl.flow.channel import random_product, run_product
from pimloom.rtl.flow.cosim import Case, Walk, Walks, walk
from pimloom.rtl.flow.interleave import verify_interleave
from pimloom.rtl.flow.lookup import build, find_blocks, load_device, part_of
from pimloom.rtl.flow.npu.verifiers import ARRAYS, VECTORS
from pimloom.rtl.flow.npu_pim.verify import verify_npu_pim
from pimloom.rtl.flow.scenes import arithmetic, functions, optics
from pimloom.rtl.flow.scenes.scene import mismatches as scene_mismatches
from pimloom.rtl.flow.scenes.scene import play
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import check_waves
from pimloom.rtl.flow.stimulus import draw_cases, draw_own_cases, engine, own_table, shrink
from pimloom.rtl.flow.verified import Progress, Verified, wave_file
from pimloom.rtl.ocs_switch import OcsSwitch
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.verilog import to_verilog

Clocks = tuple[list[np.ndarray], np.ndarray]  # of commands by stream, of refreshes
STREAMS = 2
BANKS = (2, 2)  # bank groups, banks of a group: small netlists, and all rules are there
OWN_BANKS = (2, 4)  # of what is emitted: more than four banks of a rank, or four ACTs never wait for a window
WAIT_BITS = 10  # the longest wait that is drawn fits


class Run(NamedTuple):
    """Cases on one netlist. bits: of the waits that are ports; 0: they are constants, as in what `rtl emit` writes."""

    cases: list[Case]
    streams: int
    bits: int

    def most_ck(self) -> int:
        """Clocks that no case should need."""
        found = [clocks for case in self.cases if (done := engine(case)) for clocks in done[0]]
        return 2 * max(int(clocks.max(initial=0)) for clocks in found) + 1000

    def walk(self, simulator: Simulator) -> Walks:
        """Through the gates."""
        return walk(self.cases, self.streams, self.bits, most_ck=self.most_ck(), simulator=simulator)


def verify_sequencer(
    name: str,
    part: Part,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Progress,
    banks: tuple[int, int] = BANKS,
    refresh: str = "all_bank",
) -> Verified:
    """Random parts and biased streams through the sequencer and through the engine; every fifth command with the
    part's own timings on the netlist that `rtl emit` writes for them. part: gives tables and geometry."""
    geometry, emitted = shrink(part, *banks), shrink(part, *max(banks, OWN_BANKS))
    progress(0, 4)
    apart = Sequencer(own_table(part, emitted), refresh=refresh).apart
    own = list(draw_own_cases(part, emitted, commands // 5, seed, apart)) if commands >= 5 else []
    drawn = list(draw_cases(part, geometry, STREAMS, commands - commands // 5, seed))
    bits = max(WAIT_BITS, int(own_table(part, geometry).rules.wait.max()).bit_length())
    runs = [Run(drawn, STREAMS, bits), *([Run(own, 1, 0)] if own else [])]
    progress(1, 4)
    wrong, first, clocks, seconds = 0, None, 0, 0.0
    kept = runs[0], 0  # the run and the case of the waveform
    for done, run in enumerate(runs, start=2):
        found = run.walk(simulator)
        progress(done, 4)
        clocks, seconds = clocks + sum(w.clocks for w in found.walks), seconds + found.seconds
        for i, (case, w) in enumerate(zip(run.cases, found.walks, strict=True)):
            n, sentence = mismatches(case, w)
            if n and not wrong:
                first, kept = sentence, (run, i)
            wrong += n
    file = _keep(waves, name, simulator, seed, *kept, bool(wrong))
    cases = [case for run in runs for case in run.cases]
    table = coverage(part, cases)
    asleep = [rule for rule, case in table.items() if case is None]
    progress(4, 4)
    return Verified(
        "sequencer", name, simulator, sum(len(s) for case in cases for s in case.streams), wrong,
        len(table) - len(asleep), len(table), asleep, clocks, clocks / seconds, first, file, table,
        coverage(part, own) if own else None,
    )  # fmt: skip


def mismatches(case: Case, found: Walk) -> tuple[int, str]:
    """Commands whose issue clock differs from the engine's, and a sentence about the first."""
    model = engine(case)
    assert model is not None
    issue_ck, refresh_ck = model
    wrong: list[tuple[int, str]] = []
    for s, (rows, want, got) in enumerate(zip(case.streams, issue_ck, found.issue_ck, strict=True)):
        for i, clock in enumerate(want.tolist()):
            if i >= len(got) or got[i] != clock:
                said = f"issued at CK {got[i]}" if i < len(got) else "never issued"
                of = f" of stream {s}" if len(case.streams) > 1 else ""
                wrong.append((clock, f"command {i}{of} ({describe(case.table, rows[i])}) {said}, model says {clock}"))
    if wrong:
        return len(wrong), min(wrong)[1]
    if not found.echoed:
        return 1, "a command left the bus other than it came"
    if not np.array_equal(found.refresh_ck, refresh_ck):
        at = found.refresh_ck[:, 0].tolist()
        return 1, f"{case.table.refresh} issued at CK {at}, model says {refresh_ck[:, 0].tolist()}"
    return 0, ""


def coverage(part: Part, cases: Sequence[Case]) -> dict[str, int | None]:
    """The rules of the part's tables, and the number of the first case in which each decided a clock."""
    return coverage_of(standard_of(part).rules, cases)


def coverage_of(rules: Sequence[Rule], cases: Sequence[Case]) -> dict[str, int | None]:
    """The same for the rules of the cases' table."""
    expected = [engine(case) for case in cases]
    return {str(rule): feels(cases, expected, i, 1) for i, rule in enumerate(rules)}


def feels(cases: Sequence[Case], expected: Sequence[Clocks | None], rule: int, by: int) -> int | None:
    """Number of the first case whose issue clocks change when the rule's wait does."""
    for number, (case, want) in enumerate(zip(cases, expected, strict=True)):
        changed = engine(case._replace(table=bend(case.table, rule, by)))
        if changed is None or want is None or not _equal(changed, want):
            return number
    return None


def _equal(a: Clocks, b: Clocks) -> bool:
    (a_issue, a_refresh), (b_issue, b_refresh) = a, b
    return all(map(np.array_equal, a_issue, b_issue)) and np.array_equal(a_refresh, b_refresh)


def _keep(
    waves: Path | None, part: str, simulator: Simulator, seed: int, run: Run, case: int, wrong: bool
) -> str | None:
    """Waveform of a case, where one is asked for or something is wrong; returns its file."""
    if waves is None and not wrong:
        return None
    file = waves or wave_file("sequencer", part, simulator, seed)
    walk([run.cases[case]], run.streams, run.bits, most_ck=run.most_ck(), simulator=simulator, waves=file)
    return str(file)


def verify_channel(
    name: str, part: Part, simulator: Simulator, commands: int, seed: int, waves: Path | None, progress: Progress
) -> Verified:
    """A product of random numbers on a whole channel: results bit for bit, clocks command for command."""
    progress(0, 2)
    job = random_product(part, BANKS, commands, seed)
    progress(1, 2)
    found = run_product(job, simulator=simulator, waves=waves)
    wrong = channel_mismatches(job, found)
    if wrong and not waves:
        waves = wave_file("pim_channel", name, simulator, seed)
        run_product(job, simulator=simulator, waves=waves)
    progress(2, 2)
    cycles = int(found.issue_ck.max(initial=0)) + 1
    return Verified(
        "pim_channel", name, simulator, len(found.model_ck), len(wrong), 0, 0, [],
        cycles, cycles / found.seconds, wrong[0] if wrong else None, str(waves) if waves else None,
    )  # fmt: skip


def verify_values(
    block: str,
    name: str,
    part: Part,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Progress,
) -> Verified:
    """Random numbers, and many special ones, through a block of arithmetic: bit for bit what its model says."""
    progress(0, 2)
    component = BLOCKS[block].build(part)
    scene = SCENES[block](component, part, np.random.default_rng(seed), commands)
    verilog = to_verilog(component, block)
    progress(1, 2)
    found = play(verilog, block, scene, simulator, waves)
    wrong = scene_mismatches(scene, found)
    if wrong and not waves:
        waves = wave_file(block, name, simulator, seed)
        play(verilog, block, scene, simulator, waves)
    progress(2, 2)
    cycles = int(found["cycles"])
    return Verified(
        block, name, simulator, scene.operations, len(wrong), 0, 0, [],
        cycles, cycles / float(found["seconds"]), wrong[0] if wrong else None, str(waves) if waves else None,
    )  # fmt: skip


def verify_switch(
    name: str,
    part: Part | Optics,
    simulator: Simulator,
    commands: int,
    seed: int,
    waves: Path | None,
    progress: Progress,
) -> Verified:
    """Random transceivers and their requests through the path controller, times and tables as ports; then the part's
    own, at full length. The rules are its times."""
    progress(0, 3)
    name, own = name if isinstance(part, Optics) else OCSTRX, BLOCKS["ocs_switch"].build(part)
    cases = optics.draw_switch_cases(commands, seed)
    alone = [optics.own_switch_case(own.switch_table, seed)]
    general = OcsSwitch(cases[0].table, optics.BITS)
    jobs = [
        (to_verilog(c, "ocs_switch"), optics.switch_scene(x, x is cases)) for c, x in ((general, cases), (own, alone))
    ]
    wrong, cycles, seconds, file = list[str](), 0, 0.0, waves
    for done, (verilog, scene) in enumerate(jobs, start=1):
        found = play(verilog, "ocs_switch", scene, simulator, waves if done == 1 else None)
        cycles, seconds = cycles + int(found["cycles"]), seconds + float(found["seconds"])
        differ = scene_mismatches(scene, found)
        if differ and not wrong and (not waves or done > 1):
            file = waves or wave_file("ocs_switch", name, simulator, seed)
            play(verilog, "ocs_switch", scene, simulator, file)
        wrong += differ
        progress(done, 3)
    table = {time: optics.decides(cases, time) for time in optics.TIMES}
    asleep = [time for time, case in table.items() if case is None]
    progress(3, 3)
    return Verified(
        "ocs_switch", name, simulator, sum(scene.operations for _, scene in jobs), len(wrong),
        len(table) - len(asleep), len(table), asleep, cycles, cycles / seconds,
        wrong[0] if wrong else None, str(file) if file else None, table,
    )  # fmt: skip


SCENES = arithmetic.SCENES | functions.SCENES | VECTORS
VERIFIERS: dict[str, Callable[..., Verified]] = {
    "sequencer": verify_sequencer,
    "sequencer_axi": verify_axi,
    "timer": partial(verify_values, "timer"),
    "pim_channel": verify_channel,
    "npu_pim_channel": verify_npu_pim,
    **{block: partial(verify_values, block) for block in SCENES if block != "timer"},
    "ocs_switch": verify_switch,
    "interleave": verify_interleave,
    **ARRAYS,
}


def verify(
    block: str | None,
    part: str,
    *,
    simulator: Simulator = "verilator",
    commands: int = 5000,
    seed: int = 0,
    waves: Path | None = None,
    progress: Progress = lambda done, total: None,
    sizes: Mapping[str, int | str] | None = None,
) -> Iterator[Verified]:
    """Verify one block, or all that the part can have. sizes: of the block, as `given_sizes` has them.

    Raises UserError for an unknown block, a missing tool, one file for all waveforms or one of the wrong kind.
    """
    if waves and block is None:
        raise UserError(f"--waves {waves}: holds the waveform of one block; name the block")
    check_waves(waves, simulator)
    part = part_of(block, part)
    device = load_device(part)
    if block:
        build(block, part, device, sizes)  # or say why not, before anything is simulated
    for name in find_blocks(block, device):
        yield VERIFIERS[name](part, device, simulator, commands, seed, waves, progress, **(sizes or {}))
