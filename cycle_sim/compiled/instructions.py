"""Instructions of the processor that numba has no function for; what they do is said where kernels import them."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.extending import intrinsic

ORDER = "seq_cst"  # what was written before is seen by whoever sees the number
READ, EVERY_LEVEL, DATA = 0, 3, 1  # arguments of LLVM's `prefetch`


def _at_once(operation: str) -> Any:
    def typed(typing: Any, numbers: Any, i: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            return builder.atomic_rmw(operation, cgutils.gep(builder, data, arguments[1]), arguments[2], ORDER)

        return types.int64(numbers, types.int64, types.int64), generate

    return intrinsic(typed)


add, swap = _at_once("add"), _at_once("xchg")


@intrinsic
def prefetch(typing: Any, rows: Any, i: Any) -> Any:
    """Ask for row i of a table in C order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table = context.make_array(signature.args[0])(context, builder, arguments[0])
        at = builder.mul(arguments[1], cgutils.unpack_tuple(builder, table.strides)[0])
        byte = cgutils.voidptr_t
        place = builder.gep(builder.bitcast(table.data, byte), [at])
        how = [cgutils.int32_t(x) for x in (READ, EVERY_LEVEL, DATA)]
        asked = ir.FunctionType(ir.VoidType(), [byte, *(x.type for x in how)])
        builder.call(cgutils.get_or_insert_function(builder.module, asked, "llvm.prefetch.p0"), [place, *how])
        return context.get_dummy_value()

    return types.void(rows, types.intp), generate
