"""The `pimloom` command, and `python -m pimloom`."""

import atexit
import gc
import os
import signal
import sys
from functools import partial

from pimloom import end_silently
from pimloom.lean import put_off

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads spin as they start; matrices are small here
SELDOM = 200_000, 20, 20  # searches for cyclic garbage: what modules make as they load is none


def _is_watched() -> bool:
    """Whether a tracer or a profiler is there, which may have something to write at the end."""
    tools = getattr(sys, "monitoring", None)  # since Python 3.12
    return bool(sys.gettrace() or sys.getprofile() or (tools and any(map(tools.get_tool, range(6)))))


def _end(codes: list[int]) -> None:
    """End the process with its code: it takes longer to free all objects one by one than many a command does."""
    gc.freeze()  # what ends with the process is not searched once more
    if codes:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(codes[0] & 0xFF)


def run() -> None:
    """Run the command. An interrupt while its modules load ends it at once with code 130, without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_silently)
    gc.set_threshold(*SELDOM)
    put_off()
    from pimloom.cli import main as begin

    begin()


def main() -> None:
    """As `run`, where the process is there for nothing else: it ends with the command's code, whatever comes behind."""
    codes = list[int]()
    if not _is_watched():
        atexit.register(partial(_end, codes))  # called behind all that registers from now on
    try:
        run()
    except SystemExit as end:
        codes += [end.code or 0] if isinstance(end.code, int | None) else []
        raise


if __name__ == "__main__":
    main()
