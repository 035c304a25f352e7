"""Keys that a kind of system does not read, though its file or its part has them: who sets one is told."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pimloom.arch.error import UserError

if TYPE_CHECKING:
    from pimloom.arch.duplex_system import DuplexSystem
    from pimloom.arch.routing import Routing

NO_CURRENTS = "no currents of the part are in its energy; leave it out"
IDEAL = "an ideal memory has no commands; set memory=simulated, or leave it out"
RINGS = "its devices send around rings, as its authors' simulator has them; leave it out"
UNREAD: Mapping[str, Mapping[str, str]] = {  # kind: place, or what places start with: why
    "roofline": {"routing.seed": "it takes the exact mean of all draws; leave it out"},
    "cent": {
        "energy.instruction_buffer.write_mw": "no token writes instructions, they are there; leave it out",
        "aim.dram.io_pj_per_bit": "the pins of its channels draw energy.dq_pj_per_bit; set that",
        "aim.dram.pim_unit.mac_power_mw": "a MAC draws energy.mac_factor x energy.read_mw; set these",
        "aim.dram.VDD": NO_CURRENTS,
        "aim.dram.current.": NO_CURRENTS,
        "aim.dram.devices": NO_CURRENTS,
    },
    "attacc": {
        "dram.io_pj_per_bit": "wires of its stacks have energies of their own, which no key sets; leave it out",
        "dram.VDD": NO_CURRENTS,
        "dram.current.": NO_CURRENTS,
        "dram.devices": NO_CURRENTS,
    },
    "duplex": {
        "device.part.io_pj_per_bit": "wires of its stacks are in the energy of a column; leave it out",
        "device.part.VDD": NO_CURRENTS,
        "device.part.current.": NO_CURRENTS,
        "device.part.devices": NO_CURRENTS,
        "device.links.node.topology": RINGS,
        "device.links.network.topology": RINGS,
    },
}
OF_PIM = {  # of a Duplex device, which another processor beside the xPU does not read
    "logic": ("device.logic_pim.", "device.bundle_banks"),
    "bank_group": ("device.bank_group_pim.",),
    "bank": ("device.bank_pim.",),
}
OF_COMMANDS = ("controller", "device.part.one_bus")  # of Duplex, which an ideal memory does not read


def check_read(kind: str, overrides: Iterable[str]) -> None:
    """Raise UserError for a place that a system of this kind does not read."""
    for place in overrides:
        for unread, why in UNREAD.get(kind, {}).items():
            if place == unread or (unread.endswith(".") and place.startswith(unread)):
                raise UserError(f"--set {place}: {kind} does not read it: {why}")


def check_ideal(overrides: Iterable[str]) -> None:
    """Raise UserError for a place of Duplex that an ideal memory does not read."""
    for place in overrides:
        if place in OF_COMMANDS:
            raise UserError(f"--set {place}: not read with memory=ideal: {IDEAL}")


def check_drawn(routing: "Routing", overrides: Iterable[str]) -> None:
    """Raise UserError for a seed of draws where nothing is drawn."""
    if not routing.drawn and "routing.seed" in overrides:
        said = "not read with routing.drawn=false; set routing.drawn=true, or leave it out"
        raise UserError(f"--set routing.seed: {said}")


def check_used(spec: "DuplexSystem", overrides: Iterable[str]) -> None:
    """Raise UserError for a place of Duplex that it does not read with the others as they are."""
    unread = [(place, f"pim={spec.pim}", f"pim={pim}") for pim in OF_PIM if pim != spec.pim for place in OF_PIM[pim]]
    if not spec.co_processing:
        unread.append(("router", "co_processing=false", "co_processing=true"))
    for place in overrides:
        for start, why, instead in unread:
            if place.startswith(start):
                raise UserError(f"--set {place}: not read with {why}; set {instead}, or leave it out")
