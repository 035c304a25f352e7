"""How the kernels are compiled: several files, cached as one."""

from functools import cache
from pathlib import Path
from typing import Any

import numba

from pimloom.cycle_sim.dram.kernels.indices import from_zero


def _stamp(file: Path) -> tuple[str, int, int]:
    return file.name, file.stat().st_mtime_ns, file.stat().st_size


@cache
def _stamps(folder: Path) -> tuple[tuple[str, int, int], ...]:
    return tuple(_stamp(file) for file in sorted(folder.rglob("*.py")))


FOLDER = _stamps(Path(__file__).parent)


def bare(function: Any) -> Any:
    """Compile without reference counts (`_nrt=False`), with indices from zero, and inlined: plain arrays in, nothing
    allocated."""
    return _compile(function, forceinline=True)


def rare(function: Any) -> Any:
    """As `bare`, not inlined: what seldom happens keeps out of the way of what often does."""
    return _compile(function, forceinline=False)


def _compile(function: Any, forceinline: bool) -> Any:
    """numba's cache looks only at the file of a function, not at those that it calls; here at their folders too."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    from_zero()
    options = {"cache": True, "nogil": True, "forceinline": forceinline, "_nrt": False}
    compiled = numba.njit(**options)(function)  # type: ignore[call-overload]
    compiled._cache._cache_file._source_stamp = (*FOLDER, *_stamps(Path(function.__code__.co_filename).parent))
    return compiled


def is_compiled(function: Any) -> bool:
    """Whether machine code of a kernel, as its files are now, is kept from an earlier run."""
    return not hasattr(function, "_cache") or bool(function._cache._cache_file._load_index())
