"""A composed system from its file: each memory and unit read as what it is, all names checked, its parts loaded."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from pimloom.arch.composition import (
    ALL,
    KINDS,
    PARTS,
    PEERS,
    PHASES,
    UNITS,
    ArraysUnit,
    ComposedSystem,
    GemvUnit,
    PartMemory,
    PlainMemory,
    RooflineUnit,
)
from pimloom.arch.document import SET, Document, nearest, steps_of
from pimloom.arch.error import UserError
from pimloom.arch.load import Sheet, Source, struct_of
from pimloom.arch.part import Part
from pimloom.arch.part_file import part_of

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
NEWTON = ("newton", "neupims")  # PIM instruction sets whose commands the NPU's engine sends


class Composed(NamedTuple):
    """A composition, the parts of its memories by their names, and where each value was written."""

    spec: ComposedSystem
    parts: Mapping[str, Part]
    sources: Mapping[str, Source]


def compose(sheet: Sheet, overrides: Mapping[str, str], part: Callable[[str], Sheet]) -> Composed:
    """The composition of a file. part: the text of a part by name or path. Raises UserError."""
    document = Document(sheet.path, sheet.text)
    mine, below = split_memories(overrides, document.tree)
    for place, text in mine.items():
        document.override(place, text)
    read = typed(document)
    memories, units = (msgspec.structs.asdict(read)[name] for name in ("memories", "units"))
    spec = replace(read, memories=_by_name(document, memories), units=_by_name(document, units))
    spec = ComposedSystem(**{name: getattr(spec, name) for name in ComposedSystem.__struct_fields__})
    _check_names(document, spec)
    found = {
        name: _part(document, name, memory, below.get(name, {}), part)
        for name, memory in spec.memories.items()
        if isinstance(memory, PartMemory)
    }
    for name in spec.units:
        _check_unit(document, spec, name, found)
    _check_overlap(document, spec, found)
    return Composed(spec, {name: one for name, (one, _) in found.items()}, _sources(document, found))


def split_memories(overrides: Mapping[str, str], tree: Any) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Overrides of the composition itself, and by memory those of its part, without the place of the memory."""
    mine: dict[str, str] = {}
    below: dict[str, dict[str, str]] = {}
    for place, text in overrides.items():
        head, *rest = steps_of(place)
        if head == "memories" and len(rest) > 1 and _is_of_part(tree, rest):
            below.setdefault(str(rest[0]), {})[place.split(".", 2)[2]] = text
        else:
            mine[place] = text
    return mine, below


def typed(document: Document) -> msgspec.Struct:
    """What a file says, its memories and units each read as what it is. Raises UserError."""
    return struct_of(document, _typed(document))


def part_places(tree: Any) -> list[str]:
    """Where a file names its parts."""
    memories = _mapping(tree if isinstance(tree, dict) else {}, "memories")
    return [f"memories.{name}.part" for name, one in memories.items() if isinstance(one, dict) and "part" in one]


def _is_of_part(tree: Any, rest: list[str | int]) -> bool:
    """Whether the rest of a place behind `memories` is a key of a memory's part."""
    known = tree.get("memories") if isinstance(tree, dict) else None
    memory = known.get(rest[0]) if isinstance(known, dict) else None
    return isinstance(memory, dict) and "part" in memory and rest[1] not in memory


def _typed(document: Document) -> type[ComposedSystem]:
    """The struct of this file: `ComposedSystem` whose memories and units are each of its own type."""
    tree = document.tree if isinstance(document.tree, dict) else {}
    memories, units = ({}, {})
    for name, memory in _mapping(tree, "memories").items():
        keys = {*memory} if isinstance(memory, dict) else set()
        if not keys & {"part", "gb_s"}:
            document.fail(f"memories.{name}", "expected part and channels, or gb_s and bytes")
        memories[name] = PartMemory if "part" in keys else PlainMemory
    for name, unit in _mapping(tree, "units").items():
        said = unit.get("type") if isinstance(unit, dict) else None
        if said not in UNITS:
            place = f"units.{name}.type" if isinstance(unit, dict) and "type" in unit else f"units.{name}"
            document.fail(place, f"expected a type, one of {', '.join(UNITS)}, got {said}")
        units[name] = UNITS[said]
    types = [("memories", _struct_of("Memories", memories)), ("units", _struct_of("Units", units))]
    typed = msgspec.defstruct("Composition", types, bases=(ComposedSystem,), frozen=True, forbid_unknown_fields=True,
                             kw_only=True)  # fmt: skip
    return cast(type[ComposedSystem], typed)


def _mapping(tree: dict[str, Any], key: str) -> dict[str, Any]:
    found = tree.get(key)
    return found if isinstance(found, dict) else {}


def _struct_of(name: str, types: Mapping[str, type[msgspec.Struct]]) -> type[msgspec.Struct]:
    """A struct with these keys, whatever text they are."""
    fields = [f"f{i}" for i in range(len(types))]
    return msgspec.defstruct(
        name, list(zip(fields, types.values(), strict=True)), rename=dict(zip(fields, types, strict=True)), frozen=True,
        forbid_unknown_fields=True,
    )  # fmt: skip


def _by_name(document: Document, found: msgspec.Struct) -> dict[str, Any]:
    return {field.encode_name: getattr(found, field.name) for field in msgspec.structs.fields(found)}


def _check_names(document: Document, spec: ComposedSystem) -> None:
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
    taken = {PEERS: "the link of peers"}
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
    for name in spec.units.keys() - used:
        document.fail(f"units.{name}", "nothing runs on it; name it below runs, or leave it out")


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


def _part(
    document: Document, name: str, memory: PartMemory, below: dict[str, str], part: Callable[[str], Sheet]
) -> tuple[Part, Mapping[str, Source]]:
    device, place = memory.part, f"memories.{name}.part"
    if device.endswith((".yaml", ".yml")) and document.sources[place].file != SET:
        device = str(Path(document.file).parent / device)  # a path in a file starts at that file
    try:
        found = part_of(part(device), below)
    except UserError as error:
        raise UserError(str(error).replace("--set ", f"--set memories.{name}.", 1)) from None
    return found.value, found.sources


def _check_unit(document: Document, spec: ComposedSystem, name: str, parts: Parts) -> None:
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


def _check_overlap(document: Document, spec: ComposedSystem, parts: Parts) -> None:
    """Raise UserError where units that share the channels of a memory would work at once, or a rule changes nothing."""
    pairs = {kind for _, kind, units in placed(spec) if len(units) > 1}
    if spec.how.experts == "co-processed" and not pairs:
        document.fail("overlap.experts", "no phase names two units for experts, such as experts: [npu, pim]")
    needed = {unit.memory for unit in spec.units.values() if isinstance(unit, ArraysUnit)}
    for name, memory in spec.memories.items():
        if isinstance(memory, PartMemory) and memory.controller is not None and name not in needed:
            document.fail(f"memories.{name}.controller", "only systolic arrays need one; leave it out")
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


def _sources(document: Document, parts: Parts) -> Mapping[str, Source]:
    found = dict(document.public_sources())
    for name, (_, sources) in parts.items():
        found |= {f"memories.{name}.{place}": source for place, source in sources.items()}
    return found
