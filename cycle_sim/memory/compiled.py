"""How the kernels of this folder are compiled: several files, cached as one."""

from pathlib import Path
from typing import Any

import numba


def _stamp() -> tuple[tuple[str, int, int], ...]:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


STAMP = _stamp()


def bare(function: Any) -> Any:
    """Compile without reference counts (`_nrt=False`): plain arrays in, nothing allocated.

    numba's cache looks only at the file of a function, not at those that it calls; here it looks at the whole folder.
    """
    compiled = numba.njit(cache=True, _nrt=False, nogil=True, forceinline=True)(function)  # type: ignore[call-overload]
    compiled._cache._cache_file._source_stamp = STAMP
    return compiled
