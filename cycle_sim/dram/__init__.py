"""DRAM: one device, and what drives it: streams in order, and the kernels of memory controllers."""

from pimloom.cycle_sim.dram.kernels.device import FAR
from pimloom.cycle_sim.dram.stream import Engine, Issue, issue

__all__ = ["FAR", "Engine", "Issue", "issue"]
