"""The `pimloom` command, and `python -m pimloom`."""

import atexit
import gc
import os
import signal

from pimloom.lean import put_off

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads spin as they start; matrices are small here
SELDOM = 200_000, 20, 20  # searches for cyclic garbage: what modules make as they load is none


def main() -> None:
    """Run the command. An interrupt while its modules load ends it at once, without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(*SELDOM)
    atexit.register(gc.freeze)  # what ends with the process is not searched once more
    put_off()
    from pimloom.cli import main as run

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
