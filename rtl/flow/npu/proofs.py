"""What `pimloom rtl prove` asks about the blocks of the NPU."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pimloom.rtl.flow.claims import FREE
from pimloom.rtl.formal import systolic
from pimloom.rtl.formal.pads import PAD_PROPERTIES, PadQuestion
from pimloom.rtl.formal.question import ClaimQuestion, Subject, Task
from pimloom.rtl.formal.tiles import TILE_PROPERTIES, TileQuestion
from pimloom.rtl.npu.shape import DATAFLOWS, ArrayShape


def _npu(block: str, ask: Callable[..., Any], properties: Mapping[str, Any]) -> Callable[[str], Subject]:
    """A block of the NPU, which has no timings."""

    def question(name: str, own: bool, task: Task, twin: Any) -> str:
        return str(ask(name, task, twin).rtlil())

    def key(name: str, own: bool, task: Task, twin: Any) -> list[str]:
        return [block, name, task, repr(twin)]

    return lambda part: Subject(block, part, properties, None, question, key, FREE)


def _array(part: str) -> Subject:
    """An array of each dataflow."""
    claims = {f"results_{flow}": systolic.CLAIMS["results"] for flow in DATAFLOWS}

    def question(name: str, own: bool, task: Task, twin: str | None) -> str:
        flow = DATAFLOWS[list(claims).index(name)]
        with systolic.in_one_piece(ArrayShape(systolic.SIDE, systolic.SIDE, flow), twin):
            return ClaimQuestion(partial(systolic.TwoTiles, flow), claims[name], task, 0, twin).rtlil()

    def key(name: str, own: bool, task: Task, twin: str | None) -> list[str]:
        return ["systolic", name, task, repr(twin)]

    return Subject("systolic", part, claims, None, question, key, FREE)


NPU: dict[str, Callable[..., Subject]] = {
    "npu_tiles": _npu("npu_tiles", TileQuestion, TILE_PROPERTIES),
    "systolic": _array,
    "npu_gemm": _npu("npu_gemm", PadQuestion, PAD_PROPERTIES),
}
