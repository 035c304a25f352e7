"""Systolic arrays with vector units: each different operator is simulated once, from an idle machine."""

from collections.abc import Sequence

from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.systems.devices.composed.npu_system import npu_system
from pimloom.systems.devices.composed.price import Price
from pimloom.systems.devices.npu_pim.alone import ArraysAlone
from pimloom.workload.op import Op


class ArraysOf:
    """See `Unit`. K and V are stored with the product that makes them: writing them takes no time of its own."""

    fuses = True
    heads = 1

    def __init__(self, system: System, name: str, llm: LlmSpec) -> None:
        self._alone = ArraysAlone(npu_system(system, name), llm)

    def refuses(self, op: Op) -> str | None:
        """Nothing."""
        return None

    def price(self, ops: Sequence[Op]) -> Price:
        """See `Unit`."""
        took = self._alone.took(ops)
        work = took.compute_ps, took.memory_ps, took.command_ps
        return Price(took.ps, took.commands, took.interface_bytes, *work)


unit = ArraysOf
