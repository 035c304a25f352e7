"""Study `rtl`: synthesis, co-simulation and proofs, handed as rows to `reports/rtl`, which may not enter the RTL."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from pimloom.arch.error import GateError
from pimloom.arch.files import prepare_folder
from pimloom.arch.system import PimSystem, load_system
from pimloom.reports.rtl.study import SYSTEM, write_report
from pimloom.reports.terminal.rtl import differing, unproved
from pimloom.rtl.flow.lookup import needs_extra

Progress = Callable[[int, int], None]
POWERED = ("sequencer", "float32_add", "float32_mul", "bf16_mul", "pim_unit", "npu_tiles", "interleave")
COMMANDS = 300  # of a run for power, at least
STAGES, SHARE = 4, 100  # synthesis, co-simulation, proofs, power; steps of the report for each


def run_study(out: str | Path, progress: Progress = lambda done, total: None) -> Path:
    """Synthesise, verify and prove everything and write the report into folder `out`; returns the page.

    The first run takes half an hour on two cores; what is synthesised and proved is cached. Raises UserError for
    a missing tool or a folder that cannot be written, and GateError, when all is written, if gates and model differ or
    a proof fails.
    """
    prepare_folder(out)
    system = load_system(SYSTEM)
    name = system.of_kind(PimSystem).dram.part
    with needs_extra():
        from pimloom.rtl.flow import lookup, prove, synth, verify
        from pimloom.rtl.flow.power import estimate

        stages = [partial(_within, progress, stage) for stage in range(STAGES)]
        stages[0](1, SHARE)  # all is there: now it is said how long it takes
        found = synth.synthesize(synth.all_blocks(system.memory), system.memory, name, stages[0], _note)
        synthesis = [row._asdict() for row in found]
        verified = verify.verify(None, name)
        coverage = _counted(verified, len(lookup.find_blocks(part=system.memory)), stages[1])
        proofs = [row._asdict() for row in prove.prove(None, name, stages[2], note=_note)]
        powered = POWERED if estimate.available() else ()
        runs = (
            estimate.estimate_power(block, name, system.memory, commands=COMMANDS, seed=0, note=_note)
            for block in powered
        )
        power = _counted(runs, len(powered), stages[3])
    page = write_report(out, synthesis, coverage, proofs, power)
    if failed := differing(coverage) + unproved(proofs) + differing(power):
        raise GateError(f"gates and model differ, or a proof fails: {', '.join(failed)}; see {page}")
    return page


def _within(progress: Progress, stage: int, done: int, total: int) -> None:
    """A step of one of the stages, as a step of the whole report."""
    progress(stage * SHARE + SHARE * done // max(total, 1), STAGES * SHARE)


def _counted(rows: Iterable[Any], total: int, progress: Progress) -> list[dict[str, Any]]:
    """The rows, each a step."""
    found = []
    for done, row in enumerate(rows, start=1):
        found.append(row._asdict())
        progress(done, total)
    return found


def _note(text: str) -> None:
    if sys.stderr.isatty():
        print(f"pimloom: {text}", file=sys.stderr)
