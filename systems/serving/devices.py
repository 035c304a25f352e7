"""How many devices share each layer, and what a user who cannot set a system's places is told of them."""

import re

from pimloom.arch.error import UserError
from pimloom.arch.system import System
from pimloom.systems.devices.traits import traits

SETTINGS = re.compile(r"--set [\w.]+(?:=[\w.]*\w)?(?: (?:and )?--set [\w.]+(?:=[\w.]*\w)?)*")


def tp_of(system: System, asked: int | None) -> int:
    """Devices that share each layer: as asked, else as the system's file has it. Raises UserError."""
    has = traits(system.kind)
    own = has.own_devices(system)
    if asked is not None and asked < 1:
        raise UserError(f"--tp {asked}: expected at least 1")
    if asked is not None and has.own_place and system.where(has.own_place).startswith("--set "):
        raise UserError(f"--tp {asked}: --set {has.own_place} says so, too; leave one of the two out")
    if asked == 1 < own:
        said = f"{system.name} has {own} devices that share each layer; write --set {has.own_place}=1"
        raise UserError(f"--tp 1: {said}")
    return own if asked is None else asked


def where_nothing_is_set(system: System, reason: str) -> str:
    """The reason of a command without `--set`: devices by `--tp`, other places in a file.

    >>> from pimloom.arch.system import load_system
    >>> duplex = load_system("duplex")
    >>> where_nothing_is_set(duplex, "take 6 (--set devices=6)")
    'take 6 (--tp 6)'
    >>> where_nothing_is_set(duplex, "take 16 (--set nodes=2 --set devices=8), or pim=none")
    'take 16 (nodes: 2 and devices: 8 in a copy of its file), or pim=none'
    """
    own = traits(system.kind).own_place
    reason = re.sub(r"^--set (?=[\w.=]+: )", "", reason)

    def told(found: re.Match[str]) -> str:
        places = [place.split("=") for place in re.split(r" ?(?:and )?--set ", found[0])[1:]]
        if len(places) == 1 and places[0][0] == own and places[0][1:] != ["1"]:  # one device is what no --tp takes
            return " ".join(["--tp", *places[0][1:]])
        return f"{' and '.join(': '.join(place) for place in places)} in a copy of its file"

    return SETTINGS.sub(told, reason)
