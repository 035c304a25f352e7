"""What `pimloom trace` and its function do: check the files asked for, simulate, write the logs."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.arch.error import UserError
from pimloom.commands.running import worked
from pimloom.systems.memory.tracing import Wanted, trace_work

if TYPE_CHECKING:
    from pimloom.systems.memory.outcome import Outcome

UNKNOWN_COMPRESSION = (".bz2", ".xz", ".lz4", ".zip", ".7z")
OTHER_FORMATS = (".json", ".txt", ".npy", ".parquet", ".xlsx")


def check_log(option: str, file: Path | None) -> None:
    """Raise UserError for a log that cannot be, or is named as what it is not. None: no log."""
    if file is not None and (str(file) == "-" or file.suffix in UNKNOWN_COMPRESSION):
        raise UserError(f"{option} {file}: expected a file, plain or .gz or .zst")
    if file is not None and file.suffix in OTHER_FORMATS and option != "--timeline":
        raise UserError(f"{option} {file}: it is CSV; expected a name that ends in .csv, .csv.gz or .csv.zst")


def run_trace(wanted: Wanted) -> "Outcome":
    """Run a trace; outputs are checked first and written last. Raises UserError."""
    logs = {"--commands": wanted.commands, "--request-log": wanted.request_log, "--timeline": wanted.timeline}
    for option, file in logs.items():
        check_log(option, file)
    named = {"the trace": wanted.requests_file, "the memory": wanted.memory, "--controller": wanted.controller}
    read = {what: file for what, file in named.items() if file is not None and Path(file).is_file()}
    return worked(partial(trace_work, wanted), {"--json": wanted.json, **logs}, wanted.quiet, read)
