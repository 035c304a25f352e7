"""A composed system from its file: each memory and unit read as what it is, all names checked, its parts loaded."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from pimloom.arch.choice import choice
from pimloom.arch.composition import (
    UNITS,
    ComposedSystem,
    PartMemory,
    PlainMemory,
)
from pimloom.arch.composition_check import Parts, check_names, check_overlap, check_unit
from pimloom.arch.document import SET, Document, steps_of
from pimloom.arch.error import UserError
from pimloom.arch.link_names import name_links
from pimloom.arch.load import Sheet, Source, struct_of
from pimloom.arch.part import Part
from pimloom.arch.part_file import part_of
from pimloom.arch.routing import Routing


class Composed(NamedTuple):
    """A composition, the parts of its memories by their names, and where each value was written."""

    spec: ComposedSystem
    parts: Mapping[str, Part]
    sources: Mapping[str, Source]


def compose(sheet: Sheet, overrides: Mapping[str, str], part: Callable[[str], Sheet]) -> Composed:
    """The composition of a file. part: the text of a part by name or path. Raises UserError."""
    document = Document(sheet.path, sheet.text)
    document.fill("routing", msgspec.structs.asdict(Routing()))
    mine, below = split_memories(name_links(document, overrides), document.tree)
    for place, text in mine.items():
        document.override(place, text)
    read = typed(document)
    memories, units = (msgspec.structs.asdict(read)[name] for name in ("memories", "units"))
    spec = replace(read, memories=_by_name(document, memories), units=_by_name(document, units))
    spec = ComposedSystem(**{name: getattr(spec, name) for name in ComposedSystem.__struct_fields__})
    check_names(document, spec)
    found = {
        name: _part(document, name, memory, below.get(name, {}), part)
        for name, memory in spec.memories.items()
        if isinstance(memory, PartMemory)
    }
    for name in spec.units:
        check_unit(document, spec, name, found)
    check_overlap(document, spec, found)
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
    for name in _mapping(tree, "units"):
        units[name] = UNITS[choice(document, f"units.{name}", "type", list(UNITS))]
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


def _part(
    document: Document, name: str, memory: PartMemory, below: dict[str, str], part: Callable[[str], Sheet]
) -> tuple[Part, Mapping[str, Source]]:
    device, place = memory.part, f"memories.{name}.part"
    if device.endswith((".yaml", ".yml")) and document.sources[place].file != SET:
        device = str(Path(document.file).parent / device)  # a path in a file starts at that file
    try:
        sheet = part(device)
    except UserError as error:
        document.fail(place, str(error))
    try:
        found = part_of(sheet, below)
    except UserError as error:
        said = str(error).replace("--set dram.", "--set ").replace("--set ", f"--set memories.{name}.")
        raise UserError(said) from None
    return found.value, found.sources


def _sources(document: Document, parts: Parts) -> Mapping[str, Source]:
    found = dict(document.public_sources())
    for name, (_, sources) in parts.items():
        found |= {f"memories.{name}.{place}": source for place, source in sources.items()}
    return found
