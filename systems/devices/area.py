"""Area of the logic of a system; see `energy.logic_area` for what is in it."""

from pimloom.arch.system import System
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
