"""pimloom: exact cycles, energy and reports for processing-in-memory LLM accelerators."""

import _signal  # type: ignore[import-not-found]  # `signal` itself is read from a file, and may be interrupted
import os
import sys


def end_silently(number: int, _: object) -> None:
    """A signal's handler while the command starts: it ends the process, and nothing is there to say."""
    os._exit(128 + number)


def is_command() -> bool:
    """Whether this process is the `pimloom` command, or `python -m pimloom`, and not another program that uses us."""
    name = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return name == "pimloom" or (name == "-m" and "pimloom" in sys.orig_argv)


if is_command() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, end_silently)

# ruff: noqa: E402 an interrupt of what follows is no traceback any more
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

# In a checkout the rooms stand beside this folder; in a wheel they are inside it.
_root = Path(__file__).resolve().parent.parent
if (_root / "arch" / "command.py").is_file() and (_root / "pyproject.toml").is_file():
    __path__.append(str(_root))

from pimloom.arch.version import __version__ as __version__

if TYPE_CHECKING:
    from pimloom import fabric as fabric
    from pimloom import sweeps as sweeps
    from pimloom.api import aim as aim
    from pimloom.api import compare as compare
    from pimloom.api import frame as frame
    from pimloom.api import run as run
    from pimloom.api import sweep as sweep
    from pimloom.api import trace as trace
    from pimloom.arch.error import UserError as UserError
    from pimloom.looking_up import explain as explain
    from pimloom.looking_up import list_ as list  # noqa: F401
    from pimloom.looking_up import report as report
    from pimloom.serving import serve as serve

_API, _LOOKING_UP = "pimloom.api", "pimloom.looking_up"
_WHERE = {  # name -> module and name there, imported when asked for: numba, numpy and pandas are slow
    "UserError": ("pimloom.arch.error", "UserError"),
    **{name: (_API, name) for name in ("aim", "compare", "frame", "run", "sweep", "trace")},
    **{name: (_LOOKING_UP, name) for name in ("explain", "report")},
    "list": (_LOOKING_UP, "list_"),
    "serve": ("pimloom.serving", "serve"),
    **{name: (f"pimloom.{name}", "") for name in ("fabric", "rtl", "sweeps")},
}
__all__ = [  # without `list`: `import *` keeps Python's
    "UserError",
    "__version__",
    "aim",
    "compare",
    "explain",
    "fabric",
    "frame",
    "report",
    "run",
    "serve",
    "sweep",
    "sweeps",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'pimloom' has no attribute {name!r}")
    module, own = _WHERE[name]
    found = import_module(module)
    return getattr(found, own) if own else found


def __dir__() -> Sequence[str]:
    return sorted({*globals(), *_WHERE})
