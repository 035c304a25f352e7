"""The `pimloom` command, and `python -m pimloom`."""

import atexit
import gc
import os
import signal
import sys
from functools import partial

from pimloom.lean import put_off

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads spin as they start; matrices are small here
SELDOM = 200_000, 20, 20  # searches for cyclic garbage: what modules make as they load is none


def _end(codes: list[int]) -> None:
    """End the process with its code: it takes longer to free all objects one by one than many a command does."""
    gc.freeze()  # what ends with the process is not searched once more
    if codes and sys.gettrace() is None:  # a tracer may still have something to write
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0] & 0xFF)


def main() -> None:
    """Run the command. An interrupt while its modules load ends it at once, without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(*SELDOM)
    codes = list[int]()
    atexit.register(partial(_end, codes))  # the first one: the last to be called
    put_off()
    from pimloom.cli import main as run

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    except SystemExit as end:
        codes += [end.code or 0] if isinstance(end.code, int | None) else []
        raise


if __name__ == "__main__":
    main()
