"""pimloom: exact cycles, energy and reports for processing-in-memory LLM accelerators."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

# In a checkout the rooms stand beside this folder; in a wheel they are inside it.
_root = Path(__file__).resolve().parent.parent
if (_root / "arch" / "command.py").is_file() and (_root / "pyproject.toml").is_file():
    __path__.append(str(_root))

from pimloom.arch.version import __version__ as __version__  # noqa: E402 as the line above finds it

if TYPE_CHECKING:
    from pimloom.api import compare as compare
    from pimloom.api import frame as frame
    from pimloom.api import run as run
    from pimloom.api import sweep as sweep
    from pimloom.api import trace as trace
    from pimloom.arch.error import UserError as UserError

__all__ = ["UserError", "__version__", "compare", "frame", "run", "sweep", "trace"]


def __getattr__(name: str) -> Any:
    if name in ("compare", "frame", "run", "sweep", "trace"):  # numba is slow to import: only when asked for
        from pimloom import api

        return getattr(api, name)
    if name == "UserError":
        from pimloom.arch.error import UserError

        return UserError
    raise AttributeError(f"module 'pimloom' has no attribute {name!r}")
