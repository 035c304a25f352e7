"""Area of the logic of a system; see `energy.logic_area` and `energy.gate_area` for what is in it."""

from pimloom.arch.system import System
from pimloom.energy.gate_area import Areas, npu_pim_areas_mm2, pim_areas_mm2
from pimloom.energy.logic_area import npu_pim_area_mm2, pim_area_mm2


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
