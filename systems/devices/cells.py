"""The cells of the energy ledger for each cause of each system, and the keys or modules of their figures."""

from collections.abc import Mapping
from typing import NamedTuple

from pimloom.arch.attacc import AttAccSystem
from pimloom.arch.composition import ComposedSystem
from pimloom.arch.duplex_system import DuplexSystem
from pimloom.arch.system import System
from pimloom.energy.cells import DEVICE
from pimloom.systems.devices.without_energy import unknown_links, without_standby

CORE, CORE_REST, IO, IO_REST, COMPUTE, COMPUTE_REST, CHIP, CHIP_REST = DEVICE
LINKS, LINKS_REST = "dynamic links", "static links"
REST = (CORE_REST, IO_REST, COMPUTE_REST, CHIP_REST)
POWER_X_TIME = "power x time"


class CellsOfCause(NamedTuple):
    """The cells of a cause of energy. of: the keys of the system's file that have its figures, or a module whose
    constants have the class `source`; without: parts that the figure leaves out, so it is a lower bound."""

    cells: tuple[str, ...]
    of: str
    source: str = ""
    without: tuple[str, ...] = ()


def _each(places: Mapping[str, CellsOfCause]) -> dict[str, CellsOfCause]:
    """One entry for each name; the keys of `places` are names separated by spaces."""
    return {cause: place for causes, place in places.items() for cause in causes.split()}


NO_REFRESH = ("refresh",)
PIM_GPT = _each(
    {
        "activate": CellsOfCause((CORE,), "dram.current.IDD0 energy.k_act"),
        "read": CellsOfCause((CORE,), "dram.current.IDD4R energy.k_rd"),
        "write": CellsOfCause((CORE,), "dram.current.IDD4W"),
        "refresh": CellsOfCause((CORE_REST,), "dram.current.IDD5B"),
        "background": CellsOfCause((CORE_REST,), "dram.current.IDD3N"),
        "mac": CellsOfCause((COMPUTE,), "dram.pim_unit.mac_power_mw"),
        "interface": CellsOfCause((IO,), "dram.io_pj_per_bit"),
        "asic": CellsOfCause((COMPUTE, COMPUTE_REST, CHIP, CHIP_REST), "npu.power_mw"),
    }
)
NPU_PIM = _each(
    {
        "activate g_act": CellsOfCause((CORE,), "dram.current.IDD0"),
        "read gwrite readres": CellsOfCause((CORE,), "dram.current.IDD4R"),
        "write": CellsOfCause((CORE,), "dram.current.IDD4W"),
        "comp": CellsOfCause((CORE, COMPUTE), "energy.comp_reads"),  # reads, and the MACs beside them
        "refresh": CellsOfCause((CORE_REST,), "dram.current.IDD5B"),
        "background second_row_buffer": CellsOfCause((CORE_REST,), "dram.current.IDD2N dram.current.IDD3N"),
        "interface": CellsOfCause((IO,), "dram.io_pj_per_bit"),
        "npu_mac": CellsOfCause((COMPUTE,), "energy.pj_per_mac energy.logic_scale"),
        "npu_vector": CellsOfCause((COMPUTE,), "energy.pj_per_vector_op energy.logic_scale"),
        "npu_scratchpad": CellsOfCause((CHIP,), "energy.pj_per_sram_byte energy.logic_scale"),
        "npu_static": CellsOfCause((IO_REST, COMPUTE_REST, CHIP_REST), "energy.static_w"),  # of an idle NPU
        "link": CellsOfCause((LINKS,), "link.pj_per_bit"),
    }
)
CENT = _each(
    {
        "activate": CellsOfCause((CORE,), "energy.act_mw energy.act_ns"),
        "read": CellsOfCause((CORE,), "energy.read_mw energy.burst_ns"),
        "write": CellsOfCause((CORE,), "energy.write_mw energy.burst_ns"),
        "pim": CellsOfCause((CORE, COMPUTE), "energy.mac_factor energy.read_mw energy.mac_ns"),
        "active_standby": CellsOfCause((CORE_REST,), "energy.active_mw", without=NO_REFRESH),
        "precharge_standby": CellsOfCause((CORE_REST,), "energy.precharged_mw", without=NO_REFRESH),
        "interface": CellsOfCause((IO,), "energy.dq_pj_per_bit"),
        "memory_controller": CellsOfCause((IO,), "energy.transaction_mw energy.phy_mw"),
        "link": CellsOfCause((LINKS,), "energy.link_pj_per_bit"),
        "buffers_static": CellsOfCause((CHIP_REST,), "energy.global_buffer.static_mw energy.shared_buffer.static_mw"),
        "buffers": CellsOfCause((CHIP,), "energy.global_buffer.read_mw energy.shared_buffer.read_mw"),
        "instruction_buffer": CellsOfCause((CHIP, CHIP_REST), "energy.instruction_buffer.static_mw"),
        "near_memory": CellsOfCause((COMPUTE,), "energy.core_mw energy.reduction_mw energy.exponent_mw"),
        "control": CellsOfCause((COMPUTE, COMPUTE_REST), "energy.control_mw energy.control_activity"),
    }
)
ATTACC = _each(
    {
        "dram": CellsOfCause((CORE, IO), "energy/attacc.py", "secondary"),  # from the cells to the pins
        "cells to_global to_group": CellsOfCause((CORE,), "energy/attacc.py", "secondary"),
        "tsv interposer": CellsOfCause((IO,), "energy/attacc.py", "secondary"),
        "multiply_add": CellsOfCause((COMPUTE,), "energy/attacc.py", "secondary"),
        "l1 l2 register sram": CellsOfCause((CHIP,), "energy/attacc.py", "secondary"),
        "links": CellsOfCause((LINKS,), "link.pj_per_bit"),
    }
)
DUPLEX = _each(
    {
        "column": CellsOfCause((CORE, IO), "energy/duplex.py", "secondary"),  # from the cells to the units
        "activate": CellsOfCause((CORE,), "energy/duplex.py", "secondary"),
        "mac": CellsOfCause((COMPUTE,), "energy/duplex.py", "secondary"),
        "links": CellsOfCause((LINKS,), "device.links.node.pj_per_bit"),
        "static": CellsOfCause(REST, "device.energy.static_w"),
    }
)


def roofline_cells(system: System, tp: int) -> dict[str, CellsOfCause]:
    """Cells of a roofline: one figure for the whole device. Its links have another figure, which is a part of it."""
    without = tuple(f"{place} (not known)" for place in unknown_links(system, tp))
    whole = DEVICE if tp == 1 else (*DEVICE, LINKS_REST)
    return {
        POWER_X_TIME: CellsOfCause(whole, "power_w"),
        "link": CellsOfCause((LINKS,), "link.pj_per_bit", without=without),
    }


def attacc_cells(system: System, tp: int) -> dict[str, CellsOfCause]:
    """Cells of AttAcc. With units on the buffer die, MAC operands cross the TSVs. The energy of a host is not known."""
    spec = system.of_kind(AttAccSystem)
    found = ATTACC | ({"cells": ATTACC["dram"]} if spec.stacks.placement == "buffer" else {})
    for cause in ("multiply_add", "links") if spec.host else ():
        found[cause] = found[cause]._replace(without=("the host's processors and links",))
    return found


def duplex_cells(system: System, tp: int) -> dict[str, CellsOfCause]:
    """Cells of Duplex. The energy of links between nodes may be unknown."""
    assert system.duplex is not None
    bare = system.of_kind(DuplexSystem).nodes > 1 and system.duplex.spec.links.network.pj_per_bit is None
    return DUPLEX | ({"links": DUPLEX["links"]._replace(without=("links between nodes",))} if bare else {})


def composed_cells(system: System, tp: int) -> dict[str, CellsOfCause]:
    """Cells of a composed system: units, memories and links. The power of units at the banks includes their reads.
    Without currents of a part, standby and refresh are unknown."""
    spec = system.of_kind(ComposedSystem)
    bare = tuple(
        f"standby of {name}"
        for name in spec.memories
        if name not in system.parts or without_standby(system.parts[name])
    )
    found = {
        name: CellsOfCause((CORE, COMPUTE, CHIP) if unit.type == "gemv" else (COMPUTE, CHIP), f"units.{name}.power_w")
        for name, unit in spec.units.items()
    }
    found |= {name: CellsOfCause((CORE, IO), f"memories.{name}.pj_per_bit") for name in spec.memories}
    found |= {name: CellsOfCause((LINKS,), f"links.{name}.pj_per_bit") for name in spec.links}
    no_refresh = NO_REFRESH * any("IDD5B" not in part.current for part in system.parts.values())
    standby = CellsOfCause((CORE_REST,), "memories.part", "derived", without=(*no_refresh, *bare))
    return found | {"peers": CellsOfCause((LINKS,), "peers.pj_per_bit"), "background": standby, "refresh": standby}
