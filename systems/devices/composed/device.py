"""A system that its YAML composes, as a device."""

from pimloom.arch.composition import ComposedSystem
from pimloom.arch.composition_check import hands_over
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.systems.devices.composed.beside import Beside
from pimloom.systems.devices.composed.machine import Machine
from pimloom.systems.devices.device import Device, Share


def device(system: System, llm: LlmSpec, share: Share) -> Device:
    """Units that are priced one by one; or those that the engine of arrays beside PIM simulates together. Raises
    UserError."""
    together = hands_over(system.of_kind(ComposedSystem), system.parts)
    return Beside(system, llm, share) if together else Machine(system, llm, share)
