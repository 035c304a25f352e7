"""Tables within a row of numbers: they have one address, which the processor keeps, and places that are known."""

from typing import Any

from pimloom.cycle_sim.compiled import kernel


def part(row: Any, at: int, n: int) -> Any:
    """Numbers at … at + n - 1 of a row of int64, not copied."""
    return row[at : at + n]


def table(row: Any, at: int, rows: int, columns: int) -> Any:
    """The same as a table of two dimensions."""
    return row[at : at + rows * columns].reshape(rows, columns)


if kernel.compiler:
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import cgutils, types
    from numba.core.extending import intrinsic
    from numba.np import arrayobj

    WORD = ir.IntType(64)

    def _view(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, (row, at, *shape) = signature.return_type, arguments
        data = cgutils.gep(builder, context.make_array(signature.args[0])(context, builder, row).data, at)
        size = ir.Constant(WORD, 8)
        strides = [builder.mul(length, size) for length in shape[1:]] + [size]  # of two dimensions at most
        view = context.make_array(kind)(context, builder)
        arrayobj.populate_array(view, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        return view._getvalue()

    @intrinsic
    def part(typing: Any, row: Any, at: Any, n: Any) -> Any:
        """No bounds are looked at."""
        return types.Array(types.int64, 1, "C")(row, types.int64, types.int64), _view

    @intrinsic
    def table(typing: Any, row: Any, at: Any, rows: Any, columns: Any) -> Any:
        """No bounds are looked at."""
        return types.Array(types.int64, 2, "C")(row, types.int64, types.int64, types.int64), _view
