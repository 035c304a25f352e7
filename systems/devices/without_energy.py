"""Why a system's results have no energy, or not all of it: the keys that it does not give."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pimloom.arch.attacc import AttAccSystem
from pimloom.arch.composition import ComposedSystem
from pimloom.arch.composition_check import hands_over
from pimloom.arch.duplex_system import DuplexSystem
from pimloom.arch.link import Link
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.pim_system import PimSystem
from pimloom.arch.system import System
from pimloom.energy.dram import NEEDED
from pimloom.energy.pim import CURRENTS

if TYPE_CHECKING:
    from pimloom.arch.duplex import DuplexSpec

HOST_DRAWS = "energy is without the host's processors and the links to them: what they draw is not known"


def why_no_energy(system: System, tp: int = 1) -> str | None:
    """The keys without which no energy is told, with `tp` devices; None if none is missing.

    >>> from pimloom.arch.system import load_system
    >>> why_no_energy(load_system("npu_only", {"dram.part": "hbm3_6400"}))
    'no energy: dram.part hbm3_6400 gives no dram.current.IDD0, IDD2N, IDD3N, IDD4R, IDD4W, IDD5B'
    """
    if system.kind == "composed":
        return _of_composed(system, tp)
    if system.kind == "npu_pim":
        spec = system.of_kind(NpuPimSystem)
        if spec.energy is None:
            return "no energy: the system gives no key energy (comp_reads, pj_per_mac and others; see neupims.yaml)"
        return _of_part(system, spec.dram.part, NEEDED)
    return _of_part(system, system.of_kind(PimSystem).dram.part, CURRENTS) if system.kind == "pim" else None


def without_standby(part: Part) -> bool:
    """Whether a part gives no currents of standby."""
    return not {"IDD2N", "IDD3N"} <= part.current.keys()


def energy_note(system: System, tp: int, *, told: bool) -> str | None:
    """Why a result has no energy or, where one is told, what of its DRAM is not in it; None if nothing lacks.

    What does not work needs no figure, so that a system which lacks some may have its energy told.
    """
    if not told:
        return why_no_energy(system, tp)
    unknown = ", ".join(unknown_links(system, tp))
    links = f"energy is without {unknown}, which is not known" if unknown else None
    return "; ".join(filter(None, (standby_note(system), links))) or None


def unknown_links(system: System, tp: int) -> list[str]:
    """Keys of the energies of links that `tp` devices use and that are not known."""
    link, domain, network = (getattr(system.spec, name, None) for name in ("link", "domain", "network"))
    far = domain is not None and tp > domain
    used = {"link": link if tp > 1 else None, "network": network if far else None}
    return [f"{name}.pj_per_bit" for name, one in used.items() if isinstance(one, Link) and one.pj_per_bit is None]


def standby_note(system: System) -> str | None:
    """What is missing in the energy of a composed system's DRAM, of Duplex or of a host; None of another one."""
    if system.kind == "attacc":
        return HOST_DRAWS if system.of_kind(AttAccSystem).host else None
    if system.duplex:
        return _of_duplex(system, system.duplex.spec)
    if system.kind != "composed":
        return None
    bare = [
        name
        for name in system.of_kind(ComposedSystem).memories
        if name not in system.parts or without_standby(system.parts[name])
    ]
    only = [name for name in system.parts if name not in bare]
    said = [
        f"DRAM energy of {', '.join(only)} is standby and refresh: activations, reads and writes are in it as far as "
        "power_w and pj_per_bit hold them"
    ] * bool(only)
    if bare:
        said.append(f"energy is without standby of {', '.join(bare)}: only parts with currents (IDD2N, IDD3N) have one")
    return "; ".join(said)


def _of_duplex(system: System, device: "DuplexSpec") -> str:
    left_out = ["refresh"]
    left_out += ["power at rest (device.energy.static_w)"] * (device.energy.static_w is None)
    if device.links.network.pj_per_bit is None and system.of_kind(DuplexSystem).nodes > 1:
        left_out.append("links between nodes (device.links.network.pj_per_bit)")
    return f"energy is without {', '.join(left_out)}"


def _of_part(system: System, name: str, needed: Iterable[str]) -> str | None:
    missing = sorted(name for name in needed if name not in system.memory.current)
    return f"no energy: dram.part {name} gives no dram.current.{', '.join(missing)}" if missing else None


def _of_composed(system: System, tp: int) -> str | None:
    spec = system.of_kind(ComposedSystem)
    if hands_over(spec, system.parts):
        return "no energy: arrays beside PIM have no energy model"
    figures = {f"units.{name}.power_w": unit.power_w for name, unit in spec.units.items()}
    figures |= {f"memories.{name}.pj_per_bit": memory.pj_per_bit for name, memory in spec.memories.items()}
    figures |= {f"links.{name}.pj_per_bit": wire.pj_per_bit for name, wire in spec.links.items()}
    if spec.peers is not None and tp > 1:
        figures["peers.pj_per_bit"] = spec.peers.pj_per_bit
    missing = [place for place, figure in figures.items() if figure is None]
    return f"no energy: the system gives no {', '.join(missing)}" if missing else None
