"""Which function verifies which block of the NPU."""

from collections.abc import Callable
from typing import Any

from pimloom.rtl.flow.npu.engine import verify_gemm
from pimloom.rtl.flow.npu.sequence import verify_tiles
from pimloom.rtl.flow.npu.systolic import verify_array
from pimloom.rtl.flow.npu.vector import vector_scene
from pimloom.rtl.npu.shape import array_shape


def _of_shape(verify: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the sizes of an array in place of the part, which arrays do not depend on."""

    def verify_sizes(part_name: str, part: object, *asked: Any, **sizes: Any) -> Any:
        return verify(part_name, array_shape(**sizes), *asked)

    return verify_sizes


ARRAYS: dict[str, Callable[..., Any]] = {
    "systolic": _of_shape(verify_array),
    "npu_tiles": _of_shape(verify_tiles),
    "npu_gemm": _of_shape(verify_gemm),
}
VECTORS: dict[str, Callable[..., Any]] = {"npu_vector": vector_scene}  # as of `rtl/flow/scenes`
