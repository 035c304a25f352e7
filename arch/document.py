"""A YAML text as data: its tree, and for each place in it the line, the comment and the words as written.

Data only: one document, no tags, no anchors, no duplicate keys. Plain scalars read as in YAML 1.2: `true`,
`false`, `null`, decimal integers and floats; all else (`no`, `on`, `0x10`, `12:30`) is text. Keys are
always text. Places are dotted: `timing.tRCD`, `links[0].gbps`.
"""

import re
from collections.abc import Collection, Container, Mapping
from copy import copy
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from pimloom.arch.compressed import read_blocks
from pimloom.arch.error import UserError
from pimloom.arch.inputs import check_path as check_path
from pimloom.arch.inputs import once
from pimloom.arch.kept import composed
from pimloom.arch.name_units import capacity
from pimloom.arch.near import NEAREST as NEAREST
from pimloom.arch.near import nearest as nearest
from pimloom.arch.near import remedy
from pimloom.arch.source import SET as SET
from pimloom.arch.source import Source as Source
from pimloom.arch.source import refuse
from pimloom.arch.source import short as short
from pimloom.arch.units import KIB, MIB

LEFT_OUT = "default"
LARGEST_BYTES = 256 * KIB  # of YAML, which takes 6 s and 160 MB for each MiB; the house's longest have 12 KiB
TABLE_BYTES = 16 * MIB  # of a CSV that is no trace


def read_text(path: Path, largest_bytes: int = LARGEST_BYTES) -> str:
    """The text of a UTF-8 file, decompressed if it is gzip or zstd. Raises UserError if it cannot be read, has more
    than `largest_bytes` of text, or its name has several lines."""

    def read() -> bytes:
        blocks, size = list[bytes](), 0
        for block in read_blocks(path):
            blocks.append(block)
            size += len(block)
            if size > largest_bytes:
                smaller = "leave out unused parts, or split it into several files"
                raise UserError(f"{path}: is larger than {capacity(largest_bytes)}, the most that is read; {smaller}")
        return b"".join(blocks)

    data = once(Path(path), read)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: expected UTF-8 text, got byte 0x{data[error.start]:02x}") from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty")
    return text


def steps_of(place: str) -> list[str | int]:
    """The keys and list positions of a dotted place.

    >>> steps_of("links[0].gbps")
    ['links', 0, 'gbps']
    """
    found = re.findall(r"([^.\[\]]+)|\[(\d+)\]", place)
    return [key or int(position) for key, position in found]


def _twin(tree: Any) -> Any:
    """A copy of dicts and lists, all the way down."""
    if isinstance(tree, dict):
        return {key: _twin(value) for key, value in tree.items()}
    return [_twin(value) for value in tree] if isinstance(tree, list) else tree


class Document:
    """A composed text: its tree, and for each place its source and how its value was written (`shown`).

    `root` is '' for a file; for an override (file `--set`) it is the place that the text replaces. `free`: places of
    mappings whose keys are any text on one line, such as dotted places; elsewhere dots and brackets are errors.
    """

    def __init__(self, file: str, text: str, root: str = "", free: Container[str] = ()) -> None:
        self.file = file
        self.tree, notes = composed(file, text, root, free)
        self.sources = {place: Source(file, line, comment) for place, line, comment, _ in notes}
        self.shown = {place: shown for place, _, _, shown in notes}

    def copy(self) -> "Document":
        """A document of its own with the same content: overrides of the one leave the other alone."""
        twin = copy(self)
        twin.tree, twin.sources, twin.shown = _twin(self.tree), dict(self.sources), dict(self.shown)
        return twin

    def fail(self, place: str, said: str, line_of: str | None = None) -> NoReturn:
        """Raise UserError about the value at a place, with the line of that place or of another one."""
        refuse(self.sources, place, said, line_of)

    def override(self, place: str, text: str, optional: Collection[str] = ()) -> None:
        """Replace the value at a place by a text as one would write it in the file; or write an optional one."""
        if not place or place not in self.sources and place not in optional:
            known = [*self.sources, *sorted(set(optional) - self.sources.keys())]
            raise UserError(f"{SET} {place}: no such key in {Path(self.file).name}{remedy(place, known)}")
        *parents, last = steps_of(place)
        parent = self.tree
        for step in parents:
            parent = parent[step]
        if isinstance(parent.get(last) if isinstance(parent, dict) else parent[last], dict):
            raise UserError(f"{SET} {place}: is a mapping, set one of its keys: {', '.join(parent[last])}")
        piece = _piece(text if text.strip() else "null", place)
        parent[last] = _twin(piece.tree)
        for old in [p for p in self.sources if p.startswith((place + ".", place + "["))]:
            del self.sources[old], self.shown[old]
        self.sources |= piece.sources
        self.shown |= piece.shown

    def include(self, place: str, other: "Document", section: str) -> None:
        """Replace a name by the section of another document with that name, with its sources."""
        *parents, last = steps_of(place)
        parent = self.tree
        for step in parents:
            parent = parent[step]
        parent[last], start = _twin(other.tree[section]), f"{section}."
        for key in [key for key in other.sources if key.startswith(start)]:
            mine = f"{place}.{key.removeprefix(start)}"
            self.sources[mine], self.shown[mine] = other.sources[key], other.shown[key]

    def fill(self, section: str, values: Mapping[str, Any]) -> None:
        """Write out what the text leaves out of a section: all of it, or some of its keys."""
        mine = self.tree.setdefault(section, {})
        if not isinstance(mine, dict):
            return  # what it should be is said where the tree becomes a Struct
        new = [place for place in (section, *(f"{section}.{key}" for key in values)) if place not in self.sources]
        mine |= {key: value for key, value in values.items() if key not in mine}
        self.sources |= dict.fromkeys(new, Source(self.file, 0, LEFT_OUT))
        self.shown |= dict.fromkeys(new, LEFT_OUT)

    def public_sources(self) -> Mapping[str, Source]:
        """Place -> source, without the document itself."""
        return MappingProxyType({place: source for place, source in self.sources.items() if place})


@lru_cache(maxsize=4096)
def _piece(text: str, place: str) -> Document:
    """An override as a document; shared, so nobody may write to it."""
    return Document(SET, text, place)
