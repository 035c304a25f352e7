"""Strict YAML and JSON: a bad file is one `UserError` line that names file, line, place and remedy."""

import copy
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, reduce
from operator import getitem
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import msgspec
import msgspec.inspect as kinds

from pimloom.arch.choice import choice
from pimloom.arch.document import LARGEST_BYTES, Document, Source, nearest, read_text, short, steps_of
from pimloom.arch.error import UserError
from pimloom.arch.link_names import name_links
from pimloom.arch.scalar import DEEPEST
from pimloom.arch.units import MIB

__all__ = [
    "Loaded", "Sheet", "Source", "load_json", "load_sheet", "load_tree", "load_yaml", "nearest", "read_sheet",
    "struct_of",
]  # fmt: skip

T = TypeVar("T")
JSON_BYTES = 32 * MIB  # the longest published config.json or hf_quant_config.json has 2.8 MB
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Loaded(NamedTuple, Generic[T]):
    """A value and, for each dotted place in it, where that part was written."""

    value: T
    sources: Mapping[str, Source]


class Sheet(NamedTuple):
    """A file as text, so that it can be loaded where the file itself is not: its path as given, and what it says."""

    path: str
    text: str


def read_sheet(path: Path, largest_bytes: int = LARGEST_BYTES) -> Sheet:
    """The text of a YAML file. Raises UserError if it cannot be read."""
    return Sheet(str(path), read_text(path, largest_bytes))


def load_yaml(path: Path, type_: type[T], overrides: Mapping[str, str] = _NOTHING) -> Loaded[T]:
    """Read a YAML file as a msgspec Struct; fields may be quantities (types with `parse`, see `units`).

    `overrides` replaces values: dotted place -> text as one would write it in the file. Raises UserError.
    """
    return load_sheet(read_sheet(path), type_, overrides)


def load_sheet(
    sheet: Sheet, type_: type[T], overrides: Mapping[str, str] = _NOTHING, optional: Collection[str] = (),
    sections: type | None = None,
) -> Loaded[T]:  # fmt: skip
    """The same of a text that is read already. optional: places that overrides may add; sections: whose sections the
    text may leave out, None: those of the Struct."""
    document = _parsed(sheet).copy()
    _complete(document, sections or type_)
    _override(document, name_links(document, overrides), optional)
    return Loaded(struct_of(document, type_), document.public_sources())


def struct_of(document: Document, type_: type[T]) -> T:
    """A document's tree as a msgspec Struct. Raises UserError with the line of what does not fit."""
    try:
        return _convert(document.tree, type_)
    except msgspec.ValidationError as error:
        _explain(document, type_, str(error))


def load_tree(path: Path, overrides: Mapping[str, str] = _NOTHING) -> tuple[Any, Mapping[str, Source]]:
    """Read a YAML file as plain dicts, lists and scalars, and the source of each place. Raises UserError."""
    document = _parsed(read_sheet(path)).copy()
    _override(document, overrides)
    return document.tree, document.public_sources()


def load_json(path: Path, largest_bytes: int = JSON_BYTES, *, finite: bool = True) -> Any:
    """Read a JSON file; duplicate keys and, with `finite`, numbers that are not are errors too. Raises UserError."""
    text = read_text(path, largest_bytes)
    odd = [bool(_ENDLESS.search(text))]

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        odd[0] |= len(made) < len(pairs)
        return made

    try:
        tree = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON we can read: nested too deeply or a number too long") from None
    if odd[0]:
        _check_json(path, text, finite)
    if _is_deeper(tree, DEEPEST):
        raise UserError(f"{path}: is nested too deeply, expected at most {DEEPEST} levels")
    return tree


def _is_deeper(tree: Any, levels: int) -> bool:
    """Whether lists and mappings are nested deeper than the limit."""
    inside = [tree]
    for _ in range(levels + 1):
        inside = [x for x in inside if x.__class__ is dict or x.__class__ is list]
        if not inside:
            return False
        inside = [below for x in inside for below in (x.values() if x.__class__ is dict else x)]
    return True


_ENDLESS = re.compile(r"NaN|Infinity|[eE]\+?\d{3}|\d{300}")  # numbers that may not be finite
_JSON_TOKEN = r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+'


def _check_json(path: Path, text: str, finite: bool) -> None:
    """Refuse what the json module lets pass: duplicate keys, numbers not finite. `text` is JSON already."""
    line, end, last = 1, 0, ""
    open_: list[dict[str, int]] = []  # per bracket not closed yet: key -> its line
    for match in re.finditer(_JSON_TOKEN, text):
        token = match[0]
        line += text.count("\n", end, match.start())
        end = match.end()
        if token in "{[":
            open_.append({})
        elif token in "}]":
            open_.pop()
        elif token == ":":
            key = json.loads(last)
            if key in open_[-1]:
                raise UserError(f"{path}:{line}: duplicate key {key!r}, first on line {open_[-1][key]}")
            open_[-1][key] = line
        elif finite and token[0] in "-0123456789NI" and not math.isfinite(float(token)):
            raise UserError(f"{path}:{line}: expected a finite number, got {short(token)}")
        last = token


@lru_cache(maxsize=64)
def _parsed(sheet: Sheet) -> Document:
    """Parsing takes milliseconds; a sweep loads the same few texts for every point."""
    return Document(sheet.path, sheet.text)


def _complete(document: Document, type_: type) -> None:
    """Add optional keys of sections that the file leaves out, so that they can be overridden."""
    fields = msgspec.structs.fields(type_) if issubclass(type_, msgspec.Struct) else ()
    for field in fields if isinstance(document.tree, dict) else ():
        if isinstance(field.default, msgspec.Struct):
            document.fill(field.encode_name, msgspec.structs.asdict(field.default))
        elif field.encode_name in document.tree and isinstance(field.type, type):
            document.fill(field.encode_name, _defaults(field.type))


def _defaults(type_: type) -> dict[str, Any]:
    """The keys of a section whose default is a number or a text, with these defaults."""
    fields = msgspec.structs.fields(type_) if issubclass(type_, msgspec.Struct) else ()
    return {f.encode_name: f.default for f in fields if isinstance(f.default, int | float | str)}


def _override(document: Document, overrides: Mapping[str, str], optional: Collection[str] = ()) -> None:
    for place, text in overrides.items():
        document.override(place, text, optional)


def _convert(tree: Any, type_: type[T]) -> T:
    return msgspec.convert(tree, type_, dec_hook=_quantity)


def _quantity(type_: type, value: Any) -> Any:
    return _parse(type_, value) if isinstance(value, str) else type_.parse(value)  # type: ignore[attr-defined]


@lru_cache(maxsize=4096)
def _parse(type_: type, text: str) -> Any:
    return type_.parse(text)  # type: ignore[attr-defined]


def tree_of(sheet: Sheet) -> Any:
    """The plain dicts, lists and scalars of a text; shared, so nobody may write to them. Raises UserError."""
    return _parsed(sheet).tree


def choice_of(sheet: Sheet, key: str, known: Sequence[str]) -> str:
    """The value of a key at the top of a text, which is one of `known`. Raises UserError."""
    return choice(_parsed(sheet), "", key, known)


def _explain(document: Document, type_: type, message: str) -> NoReturn:
    """Raise msgspec's message as ours: with the place's line, the keys there are, the words as written."""
    said, place = _pinned(document.tree, type_, message)
    kind = _kind_at(kinds.type_info(type_), place)
    if match := re.fullmatch(r"Object missing required field `(.*)`", said):
        document.fail(place, f"missing key {match[1]!r} (expected {_describe(_kind_at(kind, match[1]))})")
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", said):
        known = _keys(kind)
        remedy = f"expected one of {', '.join(known)}{nearest(match[1], known)}"
        written = f"{place}.{match[1]}" if place else match[1]
        document.fail(place, f"unknown key {match[1]!r}, {remedy}", line_of=written)
    if said.startswith(("Expected ", "Invalid ")):
        shown = document.shown[place]
        said = f"expected {_describe(kind)}, got {shown}{nearest(shown, _words(kind))}"
    document.fail(place, " ".join(said.split()))


_MESSAGE = r"(?s)(.*?)(?: - at (?:`key` in )?`\$(.*)`)?"


def _pinned(tree: Any, type_: type, message: str) -> tuple[str, str]:
    """What msgspec said and the dotted place; for each `[...]` in it, the first key that fails so alone."""
    match = re.fullmatch(_MESSAGE, message)
    assert match is not None
    said, place = match[1], (match[2] or "").removeprefix(".")
    while "[...]" in place:
        before, after = place.split("[...]", 1)
        alone = [(key, _with_only(tree, before, key)) for key in _at(tree, before)]
        guilty = next(((k, t) for k, t in alone if _complaint(t, type_) == message), None)
        if guilty is None:
            return said, before
        key, tree = guilty
        place = f"{before}.{key}{after}".removeprefix(".")
    return said, place


def _at(tree: Any, place: str) -> Any:
    return reduce(getitem, steps_of(place), tree)


def _with_only(tree: Any, place: str, key: str) -> Any:
    tree = copy.deepcopy(tree)
    mapping = _at(tree, place)
    for other in mapping.keys() - {key}:
        del mapping[other]
    return tree


def _complaint(tree: Any, type_: type) -> str:
    try:
        _convert(tree, type_)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _kind_at(kind: "kinds.Type | None", place: str) -> "kinds.Type | None":
    for step in steps_of(place):
        kind = _inner(kind, step)
    return kind


def _inner(kind: "kinds.Type | None", step: str | int) -> "kinds.Type | None":
    match kind:
        case kinds.UnionType(types=types):
            return next((inner for t in types if (inner := _inner(t, step))), None)
        case kinds.Metadata(type=type_):
            return _inner(type_, step)
        case kinds.StructType(fields=fields):
            return next((f.type for f in fields if f.encode_name == step), None)
        case kinds.DictType(value_type=type_):
            return type_
        case kinds.ListType(item_type=type_) | kinds.VarTupleType(item_type=type_):
            return type_
        case kinds.TupleType(item_types=types) if isinstance(step, int):
            return types[step]
    return None


def _keys(kind: "kinds.Type | None") -> list[str]:
    match kind:
        case kinds.UnionType(types=types):
            return [key for t in types for key in _keys(t)]
        case kinds.Metadata(type=type_):
            return _keys(type_)
        case kinds.StructType(fields=fields):
            return [f.encode_name for f in fields]
    return []


def _words(kind: "kinds.Type | None") -> list[str]:
    """The texts that may stand there, where they are few."""
    match kind:
        case kinds.UnionType(types=types):
            return [word for t in types for word in _words(t)]
        case kinds.Metadata(type=type_):
            return _words(type_)
        case kinds.LiteralType(values=values):
            return [word for word in values if isinstance(word, str)]
    return []


def _describe(kind: "kinds.Type | None") -> str:
    match kind:
        case kinds.UnionType(types=types):
            return " or ".join(map(_describe, types))
        case kinds.Metadata(type=type_):
            return _describe(type_)
        case kinds.IntType(gt=gt, ge=ge, lt=lt, le=le, multiple_of=step):
            low = ge if gt is None else gt + 1
            high = le if lt is None else lt - 1
            return "int" + _bounds({">=": low, "<=": high, "a multiple of": step})
        case kinds.FloatType(gt=gt, ge=ge, lt=lt, le=le):
            return "number" + _bounds({">": gt, ">=": ge, "<": lt, "<=": le})
        case kinds.LiteralType(values=values):
            return "one of " + ", ".join(map(str, values))
        case kinds.CustomType(cls=cls):
            return str(getattr(cls, "expected", cls.__name__))
        case kinds.StrType(pattern=pattern):
            return "text" if pattern is None else f"text like {pattern}"
        case kinds.TupleType(item_types=types):
            return f"a list of {len(types)}"
        case kinds.ListType(min_length=least) | kinds.VarTupleType(min_length=least):
            return "a list" if not least else f"a list of at least {least}"
        case kinds.StructType() | kinds.DictType():
            return "a mapping"
        case kinds.BoolType():
            return "true or false"
        case kinds.NoneType():
            return "null"
    return "something else"


def _bounds(bounds: dict[str, float | None]) -> str:
    given = [f"{sign} {bound:.15g}" for sign, bound in bounds.items() if bound is not None]
    return " " + " and ".join(given) if given else ""
