"""What `pimloom rtl prove` asks about the blocks of the NPU."""

from collections.abc import Callable, Mapping
from typing import Any

from pimloom.rtl.flow.claims import FREE
from pimloom.rtl.flow.subject import Subject
from pimloom.rtl.formal.pads import PAD_PROPERTIES, PadQuestion
from pimloom.rtl.formal.question import Task
from pimloom.rtl.formal.tiles import TILE_PROPERTIES, TileQuestion


def _npu(block: str, ask: Callable[..., Any], properties: Mapping[str, Any]) -> Callable[[str], Subject]:
    """A block of the NPU, which has no timings."""

    def question(name: str, own: bool, task: Task, twin: Any) -> str:
        return str(ask(name, task, twin).rtlil())

    def key(name: str, own: bool, task: Task, twin: Any) -> list[str]:
        return [block, name, task, repr(twin)]

    return lambda part: Subject(block, part, properties, None, question, key, FREE)


NPU: dict[str, Callable[..., Subject]] = {
    "npu_tiles": _npu("npu_tiles", TileQuestion, TILE_PROPERTIES),
    "npu_gemm": _npu("npu_gemm", PadQuestion, PAD_PROPERTIES),
}
