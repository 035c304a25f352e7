"""The lowest bit of a mask."""

from typing import Any

from pimloom.cycle_sim.compiled import kernel


def lowest(mask: Any) -> Any:
    """Place of the lowest bit of a mask that is not 0."""
    return (int(mask) & -int(mask)).bit_length() - 1


if kernel.compiler:
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import types
    from numba.core.extending import intrinsic

    @intrinsic
    def lowest(typing: Any, mask: Any) -> Any:
        """One instruction of the processor."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.int64), generate
