"""What `pimloom trace` does: check the files asked for, simulate with a progress bar, write the logs."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.arch.error import UserError
from pimloom.arch.version import __version__
from pimloom.outputs import check_outputs
from pimloom.progress import progress_bar
from pimloom.systems.memory.tracing import Wanted, find_memory, logs_of, requests_of

UNKNOWN_COMPRESSION = (".bz2", ".xz", ".lz4", ".zip", ".7z")
LONGEST_IDLE_CK = 10**12  # about ten minutes of simulated time

if TYPE_CHECKING:
    from pimloom.systems.memory.outcome import Outcome


def trace_command(wanted: Wanted) -> "Outcome":
    """Run a trace; returns its `Outcome`. Outputs are checked first and written last. Raises UserError."""
    from pimloom.cycle_sim.memory.channel import kernel_of
    from pimloom.cycle_sim.memory.simulate import simulate
    from pimloom.systems.memory.fingerprint import Fingerprint
    from pimloom.systems.memory.outcome import outcome

    _check_outputs(wanted)
    _check_use(wanted)
    if not 0 <= wanted.idle <= LONGEST_IDLE_CK:
        raise UserError(f"--idle {wanted.idle}: expected clocks >= 0 and <= {LONGEST_IDLE_CK}")
    memory, controller = find_memory(wanted)
    warnings = list(memory.warnings)
    strict = memory.policy.quirks == "none"
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bar(f"requests on {memory.name}", wanted.quiet, kernel_of(memory)))
        chunks = requests_of(wanted, memory, strict, warnings.append, progress)
        log, chunks, draw = logs_of(wanted, memory, chunks, stack, warnings.append)
        start, seen = time.perf_counter(), Fingerprint()
        tallies = simulate(memory, seen.watch(chunks), extra_ck=wanted.idle, log=log)
        wall_s = time.perf_counter() - start
        draw()
    seed = wanted.seed or 0 if wanted.pattern else None
    asked = {"requests": seen.hexdigest(), "idle": wanted.idle}
    return outcome(
        memory, controller, tallies, wall_s=wall_s, seed=seed, warnings=warnings, version=__version__, asked=asked
    )


def _check_outputs(wanted: Wanted) -> None:
    """Raise UserError unless all files asked for can be written, and differ."""
    logs = {"--commands": wanted.commands, "--request-log": wanted.request_log, "--timeline": wanted.timeline}
    for option, file in logs.items():
        if file is not None and (str(file) == "-" or file.suffix in UNKNOWN_COMPRESSION):
            raise UserError(f"{option} {file}: expected a file, plain or .gz or .zst")
    named = {"the trace": wanted.trace, "the memory": wanted.memory, "--controller": wanted.controller}
    read = {what: file for what, file in named.items() if file is not None and Path(file).is_file()}
    check_outputs({"--json": wanted.json, **logs}, read)


def _check_use(wanted: Wanted) -> None:
    """Raise UserError if an option would change nothing."""
    made = {"--requests": wanted.requests, "--seed": wanted.seed, "--gap": wanted.gap, "--stride": wanted.stride}
    for option, value in made.items():
        if value is not None and wanted.trace is not None:
            raise UserError(f"{option} {value}: belongs to a --pattern, and {wanted.trace} is a trace; leave one out")
    if wanted.window is not None and wanted.timeline is None:
        raise UserError(f"--window {wanted.window}: belongs to --timeline FILE; name one")
