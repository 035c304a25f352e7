"""The boundary over which energies of systems are compared: in which part of it each cause is spent."""

from collections.abc import Mapping
from math import fsum

from pimloom.arch.composition import ComposedSystem
from pimloom.arch.system import System

PARTS = ("DRAM", "interface", "logic", "static", "links", "host")
WHOLE = "whole device"  # a figure that cannot be told apart: DRAM, interface, logic and static power together
PART_OF = {  # cause of energy: the part of the boundary where it is spent
    **dict.fromkeys(("background", "second_row_buffer", "activate", "read", "write", "refresh"), "DRAM"),
    **dict.fromkeys(("gwrite", "g_act", "comp", "readres"), "DRAM"),  # COMPs of Newton and NeuPIMs: reads, MACs in them
    **dict.fromkeys(("mac", "asic", "npu_mac", "npu_vector", "npu_scratchpad"), "logic"),
    **dict.fromkeys(("pim", "active_standby", "precharge_standby"), "DRAM"),  # CENT's MACs: reads, MACs in them
    **dict.fromkeys(("memory_controller", "buffers_static", "buffers", "instruction_buffer"), "logic"),
    **dict.fromkeys(("near_memory", "control"), "logic"),
    **dict.fromkeys(("cells", "dram"), "DRAM"),  # AttAcc: its way to the units is in it, for GPUs to their pins
    **dict.fromkeys(("interposer", "tsv", "to_global", "to_group"), "interface"),  # AttAcc: of what moves
    **dict.fromkeys(("multiply_add", "sram", "l1", "l2", "register"), "logic"),
    "column": "DRAM",  # Duplex: its way to what computes is in it
    "static": "static",
    "links": "links",
    "interface": "interface",
    "npu_static": "static",
    "link": "links",
    "power x time": WHOLE,
}
AT_REST = frozenset({  # causes that are power over time, whether or not something is done
    "background", "active_standby", "precharge_standby", "buffers_static", "control", "static", "npu_static",
    "power x time",
})  # fmt: skip


def parts_of(system: System) -> Mapping[str, str]:
    """From cause to part. A composed system's causes are its units, memories, whose figure is of a bit on the pins, and
    links."""
    if system.kind != "composed":
        return PART_OF
    spec = system.of_kind(ComposedSystem)
    of = {**dict.fromkeys(spec.links, "links"), **dict.fromkeys(spec.memories, "interface")}
    return PART_OF | {"peers": "links"} | of | dict.fromkeys(spec.units, "logic")


def by_part(joules: Mapping[str, float], parts: Mapping[str, str] = PART_OF) -> dict[str, float]:
    """Energy by part of the boundary.

    >>> by_part({"read": 1.0, "activate": 2.0, "mac": 0.5})
    {'DRAM': 3.0, 'logic': 0.5}
    """
    named = dict.fromkeys(parts[cause] for cause in joules)
    return {part: fsum(j for cause, j in joules.items() if parts[cause] == part) for part in named}
