"""What seldom happens: the processor's registers are for the rest."""

from typing import Any

from pimloom.cycle_sim.compiled import kernel


def seldom(condition: Any) -> Any:
    """The condition, which the compiler may take for one that seldom holds."""
    return condition


if kernel.compiler:
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import types
    from numba.core.extending import intrinsic

    BIT = ir.IntType(1)

    @intrinsic
    def seldom(typing: Any, condition: Any) -> Any:
        """LLVM's `expect`: changes no result."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(BIT, [BIT, BIT])
            return builder.call(builder.module.declare_intrinsic("llvm.expect", (BIT,), kind), [arguments[0], BIT(0)])

        return types.boolean(types.boolean), generate
