"""Numbers that several threads change; arrays of one dimension."""

from typing import Any

import numba
from numba.core import cgutils, types
from numba.core.extending import intrinsic

ORDER = "seq_cst"  # what was written before is seen by whoever sees the number


def add(numbers: Any, i: Any, by: Any) -> Any:
    """Add to numbers[i]; returns what it was."""
    was = numbers[i]
    numbers[i] += by
    return was


def swap(numbers: Any, i: Any, new: Any) -> Any:
    """Write numbers[i]; returns what it was."""
    was, numbers[i] = numbers[i], new
    return was


def _at_once(operation: str) -> Any:
    def typed(typing: Any, numbers: Any, i: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            return builder.atomic_rmw(operation, cgutils.gep(builder, data, arguments[1]), arguments[2], ORDER)

        return types.int64(numbers, types.int64, types.int64), generate

    return intrinsic(typed)


if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    add, swap = _at_once("add"), _at_once("xchg")
