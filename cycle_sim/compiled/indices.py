"""Indices that count from zero.

numba adds the length of an array to each signed index below zero: a comparison, an addition and a selection for each
access, in code that does little else. This project's functions leave it out; all others stay as they are. Beware:
`fix_integer_index` is numba's own business; where it is gone, indices count as they did.
"""

from typing import Any

from numba.core import types

PROJECT = __name__.partition(".")[0]  # part of the name of each compiled function


def from_zero() -> None:
    """From now on, no index of a function of this project counts from the end of its array."""
    from numba.np import arrayobj

    from_either_end = getattr(arrayobj, "fix_integer_index", None)
    if from_either_end is None or getattr(from_either_end, "of_kernels", False):
        return

    def index(context: Any, builder: Any, kind: Any, value: Any, size: Any) -> Any:
        if PROJECT not in builder.function.name:
            return from_either_end(context, builder, kind, value, size)
        return context.cast(builder, value, kind, types.intp)

    index.of_kernels = True  # type: ignore[attr-defined]
    arrayobj.fix_integer_index = index
