"""What `pimloom aim` and its function do: check the files asked for, simulate, write the log."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.commands.outputs import check_log
from pimloom.commands.working import worked
from pimloom.systems.memory.aim.asked import Wanted, aim_work

if TYPE_CHECKING:
    from pimloom.systems.memory.aim.outcome import AimOutcome


def run_aim(wanted: Wanted) -> "AimOutcome":
    """Run a program; outputs are checked first and written last. Raises UserError."""
    log = wanted.commands
    check_log("--commands", log)
    named = (("the program", wanted.program), ("--config", wanted.config), ("--data", wanted.data))
    read: dict[str, str | Path | None] = {what: file for what, file in named if file and Path(file).is_file()}
    written = {"--json": wanted.json, "--commands": log, "--read": wanted.read}
    return worked(partial(aim_work, wanted), written, wanted.quiet, read)
