"""A processor at its roofline: an operator takes the longer of its operations and its bytes, and a launch."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from pimloom.arch.composition import ComposedSystem, RooflineUnit
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import PS_PER_S, PS_PER_US
from pimloom.systems.devices.composed.price import Price
from pimloom.workload.op import Op

FLOP_PER_TFLOP, BYTES_PER_GB = 10**12, 10**9


def exactly(number: float) -> Fraction:
    """The number as it is written: 0.1 is a tenth."""
    return Fraction(repr(float(number)))


def peak_bytes_ps(system: System, name: str) -> Fraction:
    """Bytes that a memory moves in a picosecond at its full rate."""
    memory: Any = system.of_kind(ComposedSystem).memories[name]
    if name not in system.parts:
        return exactly(memory.gb_s) * BYTES_PER_GB / PS_PER_S
    return exactly(system.parts[name].peak_gb_s) * memory.channels * BYTES_PER_GB / PS_PER_S


class Processor:
    """See `Unit`."""

    fuses = False
    heads = 1

    def __init__(self, system: System, name: str) -> None:
        unit: RooflineUnit = system.of_kind(ComposedSystem).units[name]
        self._flops_ps = exactly(unit.peak_tflops) * exactly(unit.peak_share) * FLOP_PER_TFLOP / PS_PER_S
        self._bytes_ps = peak_bytes_ps(system, unit.memory) * exactly(unit.memory_share)
        self._launch_ps = round(exactly(unit.launch_us) * PS_PER_US)

    def refuses(self, op: Op) -> str | None:
        """Nothing."""
        return None

    def price(self, ops: Sequence[Op]) -> Price:
        """See `Unit`."""
        flops, moved = sum(op.flops for op in ops), sum(op.bytes_read + op.bytes_written for op in ops)
        compute, memory = ceil(flops / self._flops_ps), ceil(moved / self._bytes_ps)
        took = max(compute, memory) + self._launch_ps
        return Price(took, interface_bytes=moved, compute_ps=compute, memory_ps=memory, launch_ps=self._launch_ps)


def unit(system: System, name: str, llm: LlmSpec) -> Processor:
    """See `price.Make`."""
    return Processor(system, name)
