"""What an operator costs on a unit, and what a unit is."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.workload.op import Op


class Price(NamedTuple):
    """An operator on a unit that has nothing else to do.

    ps: how long it holds the unit. commands: of all channels of the unit's memory; interface_bytes: over their data
    pins; compute_ps, memory_ps, command_ps: of its work of that kind at the full rate of what does it; launch_ps: of ps
    what starting it takes.
    """

    ps: int
    commands: Mapping[str, int] = {}
    interface_bytes: int = 0
    compute_ps: int = 0
    memory_ps: int = 0
    command_ps: int = 0
    launch_ps: int = 0


class Unit(Protocol):
    """Something that computes. All that a new type of unit implements, beside its keys in `arch.composition.UNITS`."""

    fuses: bool  # whether scores, softmax and values that all run here are priced as one
    heads: int  # of one request that it works on at once

    def refuses(self, op: Op) -> str | None:
        """Why this operator cannot run here, in a few words; None if it can."""
        ...

    def price(self, ops: Sequence[Op]) -> Price:
        """One operator; or, of a unit that fuses, scores, softmax and values together. Raises UserError."""
        ...


Make = Callable[[System, str, LlmSpec], Unit]  # of a system, its unit by this name, for a model
MODULES: dict[str, str] = {  # type of a unit: the module whose `unit` makes it
    "arrays": "pimloom.systems.devices.composed.arrays",
    "gemv": "pimloom.systems.devices.composed.gemv",
    "roofline": "pimloom.systems.devices.composed.processor",
}


def unit_of(system: System, kind: str, name: str, llm: LlmSpec) -> Unit:
    """A unit of a system by its name. Raises UserError if it cannot be made of what the system says."""
    make: Make = import_module(MODULES[kind]).unit
    return make(system, name, llm)
