"""Study `rtl`: synthesis, co-simulation and proofs, handed as rows to `reports/rtl`, which may not enter the RTL."""

import sys
from collections.abc import Callable
from pathlib import Path

from pimloom.arch.error import GateError
from pimloom.arch.files import prepare_folder
from pimloom.arch.system import PimSystem, load_system
from pimloom.reports.rtl.study import SYSTEM, write_report
from pimloom.reports.terminal.rtl import differing, unproved
from pimloom.rtl.flow.lookup import needs_extra

Progress = Callable[[int, int], None]
POWERED = ("sequencer", "float32_add", "float32_mul", "bf16_mul", "pim_unit", "npu_tiles", "interleave")
COMMANDS = 300  # of a run for power, at least


def run_study(out: str | Path, progress: Progress = lambda done, total: None) -> Path:
    """Synthesise, verify and prove everything and write the report into folder `out`; returns the page.

    The first run takes half an hour on two cores; what is synthesised and proved is kept. Raises UserError for
    a missing tool or a folder that cannot be written, and GateError, when all is written, if gates and model differ or
    a proof fails.
    """
    prepare_folder(out)
    system = load_system(SYSTEM)
    name = system.of_kind(PimSystem).dram.part
    with needs_extra():
        from pimloom.rtl.flow import prove, synth, verify
        from pimloom.rtl.flow.power import estimate

        found = synth.synthesize(synth.all_blocks(system.memory), system.memory, name, progress, _note)
        synthesis = [row._asdict() for row in found]
        coverage = [row._asdict() for row in verify.verify(None, name, progress=progress)]
        proofs = [row._asdict() for row in prove.prove(None, name, progress, note=_note)]
        power = [
            estimate.estimate_power(block, name, system.memory, commands=COMMANDS, seed=0, note=_note)._asdict()
            for block in POWERED
            if estimate.available()
        ]
    page = write_report(out, synthesis, coverage, proofs, power)
    if failed := differing(coverage) + unproved(proofs) + differing(power):
        raise GateError(f"gates and model differ, or a proof fails: {', '.join(failed)}; see {page}")
    return page


def _note(text: str) -> None:
    if sys.stderr.isatty():
        print(f"pimloom: {text}", file=sys.stderr)
