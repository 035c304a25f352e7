"""How many devices share each layer, and how errors of several systems name their settings."""

import re
from collections.abc import Callable

from pimloom.arch.error import UserError
from pimloom.arch.system import System
from pimloom.systems.devices.traits import traits

SETTINGS = re.compile(r"--set [\w.]+(?:=[\w.]*\w)?(?: (?:and )?--set [\w.]+(?:=[\w.]*\w)?)*")


def tp_of(system: System, asked: int | None) -> int:
    """Devices that share each layer: as asked, else as the system's file has it. Raises UserError."""
    has = traits(system.kind)
    if asked is not None and asked < 1:
        raise UserError(f"--tp {asked}: expected at least 1")
    if asked is not None and has.own_place and system.where(has.own_place).startswith("--set "):
        raise UserError(f"--tp {asked}: --set {has.own_place} says so, too; leave one of the two out")
    return has.own_devices(system) if asked is None else asked


def on_devices(load: Callable[[list[str]], System], asked: int | None) -> tuple[System, int]:
    """A system, and the number of its devices that share each layer. `--tp 1` of a system with several devices in its
    file loads it with one device. load: loads the system with further settings. Raises UserError."""
    system = load([])
    tp, has = tp_of(system, asked), traits(system.kind)
    if tp == 1 < has.own_devices(system):
        system = load([f"{has.own_place}=1"])
    return system, tp


def named_settings(system: System, said: str) -> str:
    """An error or a reason of one of several systems, with `--tp` for devices, and other settings with its name.

    >>> from pimloom.arch.system import load_system
    >>> duplex = load_system("duplex")
    >>> named_settings(duplex, "take 6 (--set devices=6)")
    'take 6 (--tp 6)'
    >>> named_settings(duplex, "take 16 (--set nodes=2 --set devices=8), or --set pim: none")
    'take 16 (--set duplex:nodes=2 --set duplex:devices=8), or --set duplex:pim: none'
    """
    own = traits(system.kind).own_place
    if own and system.where(own).startswith("--set "):
        own = ""  # where the user gave their number

    def told(found: re.Match[str]) -> str:
        places = [place.split("=") for place in re.split(r" ?(?:and )?--set ", found[0])[1:]]
        if len(places) == 1 and places[0][0] == own:
            return " ".join(["--tp", *places[0][1:]])
        return found[0].replace("--set ", f"--set {system.name}:")

    return SETTINGS.sub(told, said)
