"""Study `rtl`: synthesises all blocks and hands the rows to `reports/rtl`, which may not enter the RTL itself."""

import sys
from collections.abc import Callable
from pathlib import Path

from pimloom.arch.system import PimSystem, load_system
from pimloom.reports.files import prepare_folder
from pimloom.reports.rtl.study import SYSTEM, write_report
from pimloom.rtl_flow.lookup import needs_extra

Progress = Callable[[int, int], None]


def run_study(out: str | Path, progress: Progress = lambda done, total: None) -> Path:
    """Synthesise every block and write the report into folder `out`; returns the page.

    The first run takes a quarter of an hour on two cores; results are kept. Raises UserError for a missing tool or a
    folder that cannot be written.
    """
    prepare_folder(out)
    system = load_system(SYSTEM)
    assert isinstance(system.spec, PimSystem) and system.part is not None
    with needs_extra():
        from pimloom.rtl_flow.synth import all_blocks, synthesize

        found = synthesize(all_blocks(), system.part, system.spec.dram.part, progress, _note)
    return write_report(out, [row._asdict() for row in found])


def _note(text: str) -> None:
    if sys.stderr.isatty():
        print(f"pimloom: {text}", file=sys.stderr)
