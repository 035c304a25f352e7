"""What `pimloom aim` and its function do: check the files asked for, simulate, write the log."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.arch.error import UserError
from pimloom.commands.running import worked
from pimloom.commands.tracing import UNKNOWN_COMPRESSION
from pimloom.systems.memory.aim.asked import Wanted, aim_work

if TYPE_CHECKING:
    from pimloom.systems.memory.aim.outcome import AimOutcome


def run_aim(wanted: Wanted) -> "AimOutcome":
    """Run a program; outputs are checked first and written last. Raises UserError."""
    log = wanted.commands
    if log is not None and (str(log) == "-" or log.suffix in UNKNOWN_COMPRESSION):
        raise UserError(f"--commands {log}: expected a file, plain or .gz or .zst")
    named: dict[str, str | Path] = {"the program": wanted.program, "--config": wanted.config}
    read = {what: file for what, file in named.items() if Path(file).is_file()}
    return worked(partial(aim_work, wanted), {"--json": wanted.json, "--commands": log}, wanted.quiet, read)
