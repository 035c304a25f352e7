"""A YAML text as data: its tree, and for each place in it the line, the comment and the words as written.

Data only: one document, no tags, no anchors, no duplicate keys. Plain scalars read as in YAML 1.2: `true`,
`false`, `null`, decimal integers and floats; all else (`no`, `on`, `0x10`, `12:30`) is text. Keys are
always text. Places are dotted: `timing.tRCD`, `links[0].gbps`.
"""

import math
import re
import sys
from collections.abc import Collection, Container, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import yaml

from pimloom.arch.error import UserError, one_line
from pimloom.arch.inputs import note
from pimloom.arch.near import NEAREST as NEAREST
from pimloom.arch.near import nearest as nearest
from pimloom.arch.near import remedy
from pimloom.arch.units import MIB

SET = "--set"
LEFT_OUT = "default"
_SECOND_DOCUMENT = "expected one document, got a second"


@dataclass(frozen=True)
class Source:
    """Where a value was written: file as given, line from 1, and the comment at the end of the value's line.

    A value given as an override has the file `--set` and line 0, one that is left out line 0 and the text `default`.
    """

    file: str
    line: int
    text: str


LARGEST_BYTES = 16 * MIB  # a configuration is a few KiB


def check_path(path: str | Path) -> None:
    """UserError unless a path is one line of printable characters: files name what is in them, in every output."""
    if not str(path).isprintable():
        raise UserError(f"{one_line(path)}: expected a name of printable characters on one line; rename the file")


def read_text(path: Path, largest_bytes: int = LARGEST_BYTES) -> str:
    """The text of a UTF-8 file; UserError if there is none, or more than `largest_bytes`, or its name has two lines."""
    check_path(path)
    data = b""
    try:
        with Path(path).open("rb") as file:
            note(file.fileno())
            data = file.read(largest_bytes + 1)
        if len(data) > largest_bytes:
            kind = "configuration" if largest_bytes == LARGEST_BYTES else "smaller"
            raise UserError(f"{path}: is larger than {largest_bytes} bytes, expected a {kind} file")
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, expected a file") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: expected UTF-8 text, got byte 0x{data[error.start]:02x}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty")
    return text


def short(text: str) -> str:
    """`text` on one line of at most 60 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:60] + "..."


def steps_of(place: str) -> list[str | int]:
    """The keys and list positions of a dotted place.

    >>> steps_of("links[0].gbps")
    ['links', 0, 'gbps']
    """
    found = re.findall(r"([^.\[\]]+)|\[(\d+)\]", place)
    return [key or int(position) for key, position in found]


class _Loader(yaml.SafeLoader):
    """Composes nodes only, without aliases and tags, and notes where on each line the last scalar ends."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", text)
        self.code_end: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None:
            self._refuse("anchors and aliases are not allowed, write the value out", event)
        if event.tag is not None:
            self._refuse(f"tags are not allowed, got {event.tag.replace('tag:yaml.org,2002:', '!!')}", event)
        if isinstance(event, yaml.ScalarEvent):
            self._note(event.start_mark, event.end_mark, event.style in ("|", ">"))
        return super().compose_node(parent, index)

    def _refuse(self, said: str, event: Any) -> NoReturn:
        raise yaml.composer.ComposerError(None, None, said, event.start_mark)

    def _note(self, start: Any, end: Any, block: bool) -> None:
        for line in range(start.line + block, end.line):
            self.code_end[line] = sys.maxsize
        self.code_end[end.line] = end.column

    def comment(self, line: int) -> str:
        """The comment on a line, counted from 0; a # inside a scalar is none."""
        match = re.search(r"(?:^|\s)#(.*)", self.lines[line][self.code_end.get(line, 0) :])
        return match[1].strip() if match else ""


def _twin(tree: Any) -> Any:
    """A copy of dicts and lists, all the way down."""
    if isinstance(tree, dict):
        return {key: _twin(value) for key, value in tree.items()}
    return [_twin(value) for value in tree] if isinstance(tree, list) else tree


_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INT = re.compile(r"[-+]?(?:0|[1-9]\d*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|nan)", re.ASCII | re.IGNORECASE)
_INT64_DIGITS = 19
_KEY = re.compile(r"[^.\[\]`\n]+")
_FREE_KEY = re.compile(r"[^\n]+")


def _scalar(text: str) -> Any:
    """The value of a plain scalar; ValueError where it is a number that we cannot hold."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        if len(text) > _INT64_DIGITS + 1 or abs(int(text)) >= 2**63:
            raise ValueError(f"expected a number below 2^63, got {short(text)}")
        return int(text)
    if _NOT_FINITE.fullmatch(text) or _FLOAT.fullmatch(text) and math.isinf(float(text)):
        raise ValueError(f"expected a finite number, got {short(text)}")
    return float(text) if _FLOAT.fullmatch(text) else text


class Document:
    """A composed text: its tree, and for each place its source and how its value was written (`shown`).

    `root` is '' for a file; for an override (file `--set`) it is the place that the text replaces. `free`: places of
    mappings whose keys are any text on one line, such as dotted places; elsewhere dots and brackets are errors.
    """

    def __init__(self, file: str, text: str, root: str = "", free: Container[str] = ()) -> None:
        self.file, self.text, self.root, self.free = file, text, root, free
        self.sources: dict[str, Source] = {}
        self.shown: dict[str, str] = {}
        try:
            self._loader = _Loader(text)
            node = self._loader.get_single_node()
        except (yaml.YAMLError, RecursionError) as error:
            self._not_yaml(error)
        if node is None:
            raise UserError(f"{self._where(None)}: {'no value' if file == SET else 'the file is empty'}")
        self.tree = self._plain(node, root, node.start_mark.line)

    def copy(self) -> "Document":
        """A document of its own with the same content: overrides of the one leave the other alone."""
        twin = copy(self)
        twin.tree, twin.sources, twin.shown = _twin(self.tree), dict(self.sources), dict(self.shown)
        return twin

    def fail(self, place: str, said: str, line_of: str | None = None) -> NoReturn:
        """Raise UserError about the value at a place, with the line of that place or of another one."""
        source = self.sources[place if line_of is None else line_of]
        place = one_line(place)  # a free key may hold anything
        if source.file == SET:
            raise UserError(f"{SET} {place}: {said}")
        dot = "" if place.startswith("[") or not place else "."
        raise UserError(f"{source.file}:{source.line}: at ${dot}{place}: {said}")

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

    def _where(self, line: int | None) -> str:
        if self.file == SET:
            return f"{SET} {self.root}"
        return self.file if line is None else f"{self.file}:{line + 1}"

    def _not_yaml(self, error: Exception) -> NoReturn:
        line, said = None, "not YAML we can read: nested too deeply"
        if isinstance(error, yaml.MarkedYAMLError):
            line = error.problem_mark.line if error.problem_mark else None
            said = f"not YAML: {error.problem}"
            if isinstance(error, yaml.composer.ComposerError):
                said = _SECOND_DOCUMENT if "another document" in said else str(error.problem)
        elif isinstance(error, yaml.reader.ReaderError):
            line = self.text.count("\n", 0, error.position)
            said = f"not YAML: unprintable character {error.character:#x}"
        raise UserError(f"{self._where(line)}: {short(said)}") from None

    def _plain(self, node: Any, place: str, line: int) -> Any:
        """The value of a node, which stands at `place` and whose key or dash is on `line`, counted from 0."""
        self._note(node, place, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(n, f"{place}[{i}]", n.start_mark.line) for i, n in enumerate(node.value)]
        try:
            return _scalar(node.value) if node.style is None else node.value
        except ValueError as error:
            self.fail(place, str(error))

    def _mapping(self, node: yaml.MappingNode, place: str) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = key_node.value, key_node.start_mark.line
            if not isinstance(key, str) or not re.fullmatch(_FREE_KEY if place in self.free else _KEY, key):
                shown = repr(key) if isinstance(key, str) else "a list or mapping"
                kind = "on one line" if place in self.free else "without dots and brackets"
                self._fail_on(line, place, f"expected a key {kind}, got {shown}")
            below = f"{place}.{key}" if place else key
            if key in tree:
                first = "" if self.file == SET else f", first on line {self.sources[below].line}"
                self._fail_on(line, place, f"duplicate key {key!r}{first}")
            tree[key] = self._plain(value_node, below, line)
        return tree

    def _fail_on(self, line: int, place: str, said: str) -> NoReturn:
        self.sources[place] = self._source(line, line)
        self.fail(place, said)

    def _source(self, line: int, comment_line: int) -> Source:
        return Source(self.file, 0 if self.file == SET else line + 1, self._loader.comment(comment_line))

    def _note(self, node: Any, place: str, line: int) -> None:
        start, end = node.start_mark, node.end_mark
        comment_line = end.line
        shown = short(self.text[start.index : end.index]) or "nothing"
        if isinstance(node, yaml.CollectionNode) and not node.flow_style:
            comment_line, shown = line, "a mapping" if isinstance(node, yaml.MappingNode) else "a list"
        elif isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
            comment_line = start.line
        self.sources[place] = self._source(line, comment_line)
        self.shown[place] = shown


@lru_cache(maxsize=4096)
def _piece(text: str, place: str) -> Document:
    """An override as a document; shared, so nobody may write to it."""
    return Document(SET, text, place)
