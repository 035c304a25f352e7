"""What a composed system cannot be: names that are none, units that nothing feeds, work that would collide."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from pimloom.arch.composition import (
    ALL,
    KINDS,
    PARTS,
    PEERS,
    PHASES,
    REFRESH,
    STANDBY,
    ArraysUnit,
    ComposedSystem,
    GemvUnit,
    PartMemory,
    RooflineUnit,
)
from pimloom.arch.document import Document, nearest
from pimloom.arch.load import Source
from pimloom.arch.part import Part

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
NEWTON = ("newton", "neupims")  # PIM instruction sets whose commands the NPU's engine sends


def check_names(document: Document, spec: ComposedSystem) -> None:
    """Raise UserError for a name that is none, and for a thing that nothing uses."""
    _check_own_names(document, spec)
    for name, unit in spec.units.items():
        _known(document, f"units.{name}.memory", unit.memory, spec.memories, "memory")
    for name, wire in spec.links.items():
        for i, end in enumerate(wire.between):
            _known(document, f"links.{name}.between[{i}]", end, spec.memories, "memory")
        if wire.between[0] == wire.between[1]:
            document.fail(f"links.{name}.between", "expected two different memories")
    for one, other in combinations(spec.links, 2):
        if {*spec.links[one].between} == {*spec.links[other].between}:
            document.fail(f"links.{other}.between", f"{one} joins these memories; expected one link between two")
    _check_runs(document, spec)
    at = {unit.memory for unit in spec.units.values()}
    for name in spec.memories.keys() - at:
        document.fail(f"memories.{name}", "no unit has it; name it in one, or leave it out")
    _check_links(document, spec)


def _check_own_names(document: Document, spec: ComposedSystem) -> None:
    """Raise UserError for a name that could not be told from another: in results all of them stand side by side."""
    taken = {PEERS: "the link of peers", STANDBY: "the energy of standby", REFRESH: "the energy of refresh"}
    for place in ("memories", "units", "links"):
        for name in getattr(spec, place):
            if not NAME.fullmatch(name):
                document.fail(f"{place}.{name}", "expected a name of letters, digits, _ and -")
            if name in taken:
                document.fail(f"{place}.{name}", f"{taken[name]} has this name, too; rename one of them")
            taken[name] = f"{place}.{name}"


def _check_links(document: Document, spec: ComposedSystem) -> None:
    """Raise UserError for a link that nothing could cross: no phase has units of both its memories."""
    there: dict[str, set[str]] = {}
    for phase, _, units in placed(spec):
        there.setdefault(phase, set()).update(spec.units[unit].memory for unit in units)
    for name, wire in spec.links.items():
        if not any({*wire.between} <= memories for memories in there.values()):
            ends = " and ".join(wire.between)
            document.fail(f"links.{name}", f"no phase runs on units of both {ends}; leave it out")


def _check_runs(document: Document, spec: ComposedSystem) -> None:
    """Raise UserError for a kind that is none, a unit that is none, two where one is expected, one that has no work."""
    used = set[str]()
    for phase in spec.runs:
        _one_of(document, "runs", phase, PHASES)
    for phase, kind, units in placed(spec):
        _one_of(document, f"runs.{phase}", kind, (*KINDS, *PARTS, ALL))
        for i, unit in enumerate(units):
            where = f"runs.{phase}.{kind}" + (f"[{i}]" if len(units) > 1 else "")
            _known(document, where, unit, spec.units, "unit")
        used.update(units)
        if len(units) > 1 and (kind != "experts" or spec.how.experts != "co-processed"):
            document.fail(
                f"runs.{phase}.{kind}", "two units for one kind of operator need a rule of overlap; expected one unit, "
                "or two for experts with overlap: {experts: co-processed}"
            )  # fmt: skip
        if len(set(units)) < len(units):
            document.fail(f"runs.{phase}.{kind}", "expected two different units")
    lacks = "" if "decode" in spec.runs else ", and runs has no decode"
    for name in spec.units.keys() - used:
        document.fail(f"units.{name}", f"nothing runs on it{lacks}; name it below runs, or leave it out")


def _one_of(document: Document, place: str, key: str, known: tuple[str, ...]) -> None:
    if key not in known:
        said = f"unknown key {key!r}, expected one of {', '.join(known)}{nearest(key, known)}"
        document.fail(place, said, line_of=f"{place}.{key}")


def placed(spec: ComposedSystem) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Phase, kind of operator and its units."""
    for phase, where in spec.runs.items():
        for kind, units in where.items():
            yield phase, kind, (units,) if isinstance(units, str) else units


def _known(document: Document, place: str, name: str, among: Mapping[str, Any], what: str) -> None:
    if name not in among:
        document.fail(place, f"no {what} {name!r}; expected one of {', '.join(among)}{nearest(name, among)}")


Parts = Mapping[str, tuple[Part, Mapping[str, Source]]]


def check_unit(document: Document, spec: ComposedSystem, name: str, parts: Parts) -> None:
    """Raise UserError for a unit that its memory cannot feed, and for a key that says nothing."""
    unit, memory, place = spec.units[name], spec.memories[spec.units[name].memory], f"units.{name}"
    if isinstance(unit, RooflineUnit):
        return
    if not isinstance(memory, PartMemory):
        kind = document.tree["units"][name]["type"]
        document.fail(
            f"{place}.memory", f"{unit.memory} has a bandwidth only, which suffices for a roofline; {kind} needs a "
            "part and channels"
        )  # fmt: skip
    if isinstance(unit, ArraysUnit) and memory.controller is None:
        document.fail(f"memories.{unit.memory}", f"missing key 'controller', through which {name} reads and writes")
    if isinstance(unit, GemvUnit):
        _check_gemv(document, place, unit, parts[unit.memory][0], spec)


def _check_gemv(document: Document, place: str, unit: GemvUnit, part: Part, spec: ComposedSystem) -> None:
    if unit.pim_precharge is not None and (unit.at != "bank" or part.pim != "neupims"):
        document.fail(f"{place}.pim_precharge", "only NeuPIMs' PIM has a PIM_PRECHARGE; leave it out")
    if unit.at != "bank":
        if unit.lanes > (most := part.organization.access_bits // spec.element_bits):
            document.fail(f"{place}.lanes", f"a column access of {unit.memory} has {most} elements; expected no more")
        return
    if part.pim is None:
        document.fail(
            f"{place}.at", f"{unit.memory}: its part has no PIM commands (pim: null), so that units beside its banks "
            "cannot be simulated; give a part with PIM, or at: bank_group or logic_die, which their bandwidth prices"
        )  # fmt: skip
    if part.pim == "neupims" and unit.pim_precharge is None:
        document.fail(place, "missing key 'pim_precharge' (expected one of bank, group, channel)")
    if part.pim in NEWTON:
        if not any(isinstance(each, ArraysUnit) and each.memory == unit.memory for each in spec.units.values()):
            document.fail(
                f"{place}.at", f"PIM of {unit.memory} ({part.pim}) is simulated beside arrays of the same memory only; "
                "add such arrays, or give a part with pim: aim"
            )  # fmt: skip
        return
    if part.pim_unit is None:
        document.fail(f"{place}.at", f"{unit.memory}: its part has no pim_unit; give a part that has one")
    if part.pim_unit.lanes != unit.lanes:
        document.fail(f"{place}.lanes", f"the part has {part.pim_unit.lanes} multipliers beside a bank")
    if part.pim_unit.element_bits != spec.element_bits:
        document.fail("element_bits", f"PIM of {unit.memory} takes elements of {part.pim_unit.element_bits} bits")


def check_overlap(document: Document, spec: ComposedSystem, parts: Parts) -> None:
    """Raise UserError where units that share the channels of a memory would work at once, or a rule changes nothing."""
    pairs = {kind for _, kind, units in placed(spec) if len(units) > 1}
    if spec.how.experts == "co-processed" and not pairs:
        document.fail("overlap.experts", "no phase names two units for experts, such as experts: [npu, pim]")
    if spec.overlap != "serial" and len(spec.units) == 1:
        document.fail("overlap", f"there is no unit beside {next(iter(spec.units))}; expected serial")
    needed = {unit.memory for unit in spec.units.values() if isinstance(unit, ArraysUnit)}
    for name, memory in spec.memories.items():
        if isinstance(memory, PartMemory) and memory.controller is not None and name not in needed:
            document.fail(f"memories.{name}.controller", "only systolic arrays need one; leave it out")
        at_banks = any(isinstance(u, GemvUnit) and u.memory == name and u.at == "bank" for u in spec.units.values())
        for key in () if at_banks else ("pim_queue_entries", "pim_floor_ck"):
            if (place := f"memories.{name}.controller.{key}") in document.sources:
                document.fail(place, f"no unit computes beside the banks of {name}; leave it out")
    if hands_over(spec, {name: part for name, (part, _) in parts.items()}) or spec.overlap == "serial":
        return
    for phase in spec.runs:
        units = sorted({unit for at, _, found in placed(spec) if at == phase for unit in found})
        shared = [name for name, n in Counter(spec.units[unit].memory for unit in units).items() if n > 1]
        for memory in shared:
            both = " and ".join(unit for unit in units if spec.units[unit].memory == memory)
            document.fail(
                "overlap", f"{both} share the channels of {memory} in {phase}; expected serial, memories of their own, "
                "or arrays beside PIM of NeuPIMs or Newton, whose commands are simulated together"
            )  # fmt: skip


def hands_over(spec: ComposedSystem, parts: Mapping[str, Part]) -> bool:
    """Whether the composition has arrays and PIM of Newton or NeuPIMs on the same channels."""
    arrays = {unit.memory for unit in spec.units.values() if isinstance(unit, ArraysUnit)}
    return any(
        isinstance(unit, GemvUnit) and unit.at == "bank" and unit.memory in arrays and parts[unit.memory].pim in NEWTON
        for unit in spec.units.values()
    )
