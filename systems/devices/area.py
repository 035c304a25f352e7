"""Area of the logic of a system; see `energy.logic_area` and `energy.gate_area` for what is in it."""

from pimloom.arch.attacc import AttAccSystem
from pimloom.arch.duplex_system import DuplexSystem
from pimloom.arch.system import System
from pimloom.energy.gate_area import Areas, npu_pim_areas_mm2, pim_areas_mm2
from pimloom.energy.logic_area import npu_pim_area_mm2, pim_area_mm2

ON_LOGIC_DIES = "area is what its file adds to the logic dies, TSVs included; its xPU's is not known"
ON_DIES = "area is what its file adds to the dies of its stacks; its GPUs' is not known"


def area_mm2(system: System) -> float | None:
    """Of one device; None where there is no figure."""
    spec, part = system.spec, system.part
    if part is None:
        return None
    match spec.kind:
        case "pim":
            return pim_area_mm2(spec, part)
        case "npu_pim":
            return npu_pim_area_mm2(spec, part)
    return None


def area_of_all_mm2(system: System, tp: int) -> float | None:
    """Of all devices: `tp` of them, or as many as the system's file has; of Duplex and AttAcc what is added to the
    dies of their stacks."""
    if system.duplex:
        spec = system.of_kind(DuplexSystem)
        if spec.pim != "logic":
            return None  # of units on DRAM dies no area is published
        devices = (tp if tp > 1 else spec.devices) * spec.nodes
        with_pim = devices / 2 if spec.arrangement == "hetero" else devices
        return system.duplex.logic_area_mm2 * system.duplex.spec.stacks * with_pim
    if system.kind == "attacc":
        stacks = system.of_kind(AttAccSystem).stacks
        area = stacks.area if stacks.area and stacks.area.placement == stacks.placement else None
        return tp * stacks.each * area.mm2 if area and stacks.each else None
    one = area_mm2(system)
    return None if one is None else one * tp


def area_note(system: System) -> str | None:
    """What the area of a system leaves out."""
    return {"duplex": ON_LOGIC_DIES, "attacc": ON_DIES}.get(system.kind)


def area_by_part_mm2(system: System) -> Areas:
    """Of one device, by the gates of our own blocks; a part without a figure is None; empty for other systems."""
    spec, part = system.spec, system.part
    if part is None:
        return {}
    match spec.kind:
        case "pim":
            return pim_areas_mm2(spec, part)
        case "npu_pim":
            return npu_pim_areas_mm2(spec, part)
    return {}


def of_devices(areas: Areas, devices: int) -> Areas:
    """The same of so many devices."""
    return {part: None if one is None else one * devices for part, one in areas.items()}
