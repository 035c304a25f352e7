"""Memory that is needed soon."""

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.extending import intrinsic

READ, EVERY_LEVEL, DATA = 0, 3, 1  # arguments of LLVM's `prefetch`


def prefetch(rows: Any, i: Any) -> None:
    """Ask for row i of a table in C order before it is needed; changes nothing."""


if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

    @intrinsic
    def prefetch(typing: Any, rows: Any, i: Any) -> Any:
        """As above, compiled."""

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
