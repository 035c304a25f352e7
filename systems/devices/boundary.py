"""The ledger of energy of a result: each cause in its cells, with the class of its source."""

import re
from collections.abc import Mapping, Sequence

from pimloom.arch.source import SET
from pimloom.arch.system import System
from pimloom.energy.cells import WEAKEST, Bound, EnergyCell, Spent, ledger_of
from pimloom.systems.devices.cells import LINKS, POWER_X_TIME, REST, CellsOfCause
from pimloom.systems.devices.traits import devices_of, traits

AT_REST = "at rest"  # of a service: power while nothing is to do, of what has static energy in iterations
BETWEEN = {
    "link between pools": CellsOfCause((LINKS,), "--link", "set"),
    "link": CellsOfCause((LINKS,), "--link", "set"),
}
POOL = re.compile(r"^(prefill|decode): ")


def energy_by_cell(
    system: System, joules: Mapping[str, float], tp: int = 1, pools: Mapping[str, System] | None = None
) -> dict[str, EnergyCell]:
    """The ledger of a result, from its energy by cause [J] of all devices, `tp` of which share each layer. pools: other
    systems, by the prefix of their causes (`prefill: mac`).

    >>> from pimloom.arch.system import load_system
    >>> ledger = energy_by_cell(load_system("gpu_a100"), {"power x time": 2.0})
    >>> ledger["whole device"].bound, ledger["static compute"].within, ledger["dynamic links"].source
    ('upper', ['whole device'], 'none')
    """
    tables = {pool: (on, _places(on, tp, joules)) for pool, on in {"": system, **(pools or {})}.items()}
    spent = list[Spent]()
    for cause, j in joules.items():
        pool = POOL.match(cause)
        on, places = tables.get(pool[1] if pool else "", tables[""])
        spent.append(_spent(on, places[POOL.sub("", cause)], cause, j))
    linked = bool(pools) or any(LINKS in one.cells for one in spent)
    wired = any(place.of.startswith("links.") for place in tables[""][1].values())  # memories of a composed device
    return ledger_of(spent, ["links"] if devices_of(system, tp) == 1 and not linked and not wired else [])


def _places(system: System, tp: int, joules: Mapping[str, float]) -> dict[str, CellsOfCause]:
    """The cells of all causes. Energy at rest belongs to the static cells of these causes, or to all static cells."""
    places = BETWEEN | traits(system.kind).cells(system, tp)
    there = [name for cause in joules if (name := POOL.sub("", cause)) in places]
    rest = tuple(cell for cell in REST if any(cell in places[name].cells for name in there))
    return places | {AT_REST: CellsOfCause(rest or REST, "systems/devices/rest.py", "derived")}


def _spent(system: System, place: CellsOfCause, cause: str, j: float) -> Spent:
    source = place.source or _class_of(system, place.of.split())
    bound: Bound = "lower" if place.without else "estimate"
    if cause.endswith(POWER_X_TIME) and source != "measured":  # the most that a device draws, all the time
        bound = "upper"
    return Spent(place.cells, j, source, ", ".join(place.of.split()), bound, place.without)


def _class_of(system: System, places: Sequence[str]) -> str:
    """The weakest source class of these keys."""
    return max((_source_class(system, place) for place in places), key=WEAKEST.index)


def _source_class(system: System, place: str) -> str:
    """The source class from the comment of a key: its first tag, `assumed` without a tag, or a standard."""
    source = system.sources.get(place)
    if source is None and system.duplex is not None:
        source = system.duplex.sources.get(place.removeprefix("device."))
    if source is None:
        return "stated"
    if source.file == SET:
        return "set"
    tags = re.findall(r"\[?\b(measured|paper|secondary|derived|design|recalled|assumed|JE[A-Z]*\d+)", source.text)
    return ("standard" if tags[0].startswith("JE") else tags[0]) if tags else "stated"
