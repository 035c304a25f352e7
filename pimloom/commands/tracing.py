"""What `pimloom trace` and its function do: check the files asked for, simulate, write the logs."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.commands.outputs import check_log
from pimloom.commands.working import worked
from pimloom.systems.memory.tracing import Wanted, trace_work

if TYPE_CHECKING:
    from pimloom.systems.memory.outcome import Outcome


def run_trace(wanted: Wanted) -> "Outcome":
    """Run a trace; outputs are checked first and written last. Raises UserError."""
    logs = {"--commands": wanted.commands, "--request-log": wanted.request_log, "--timeline": wanted.timeline}
    for option, file in logs.items():
        check_log(option, file)
    named = {"the trace": wanted.requests_file, "the memory": wanted.memory, "--controller": wanted.controller}
    read = {what: file for what, file in named.items() if file is not None and Path(file).is_file()}
    return worked(partial(trace_work, wanted), {"--json": wanted.json, **logs}, wanted.quiet, read)
