"""Power of devices that have nothing to do, as far as their systems say it."""

from collections.abc import Callable

from pimloom.arch.cent import CentSystem
from pimloom.arch.duplex_system import DuplexSystem
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.pim_system import PimSystem
from pimloom.arch.roofline import RooflineSystem
from pimloom.arch.system import System
from pimloom.arch.units import J_PER_PJ, PS_PER_S, W_PER_MW
from pimloom.energy import cent, pim
from pimloom.systems.devices.npu_pim.energy import idle_pj
from pimloom.systems.devices.without_energy import why_no_energy


def power_at_rest_w(system: System, tp: int) -> float | None:
    """Power [W] of all devices that share a layer, `tp` of them, while none has anything to do; None if the system or
    its part does not say it. What each kind of system counts is what its energy of iterations counts of it, too.

    >>> from pimloom.arch.system import load_system
    >>> power_at_rest_w(load_system("gpu_a100"), 2), power_at_rest_w(load_system("attacc"), 8)
    (106.0, None)
    """
    known = None if why_no_energy(system, tp) else KINDS.get(system.kind)
    return known and known(system, tp)


def _roofline(system: System, tp: int) -> float | None:
    idle = system.of_kind(RooflineSystem).idle_w
    return None if idle is None else tp * idle


def _npu_pim(system: System, tp: int) -> float | None:
    """Static power, standby without an open row, and refresh."""
    part = system.memory
    clocks = PS_PER_S // part.tCK_ps
    found = idle_pj(system.of_kind(NpuPimSystem), part, clocks)
    if found is None:
        return None
    return tp * sum(found.values()) * J_PER_PJ * PS_PER_S / (clocks * part.tCK_ps)


def _pim(system: System, tp: int) -> float | None:
    """Standby of all channels; what the ASIC takes while it waits is not known."""
    spec = system.of_kind(PimSystem)
    return pim.rest_mw(system.memory, spec.dram.channels) * W_PER_MW


def _duplex(system: System, tp: int) -> float | None:
    """As `static_w` of its device has it."""
    assert system.duplex is not None
    each, spec = system.duplex.spec.energy.static_w, system.of_kind(DuplexSystem)
    return None if each is None else each * (tp if tp > 1 else spec.devices) * spec.nodes


def _cent(system: System, tp: int) -> float | None:
    """Precharged standby and buffers of all devices; their memory controllers are not known at rest."""
    assert system.aim is not None
    spec = system.of_kind(CentSystem)
    return spec.devices * sum(cent.rest_mw(spec.energy, system.aim.spec.channels).values()) * W_PER_MW


KINDS: dict[str, Callable[[System, int], float | None]] = {
    "roofline": _roofline,
    "npu_pim": _npu_pim,
    "pim": _pim,
    "duplex": _duplex,
    "cent": _cent,
}
