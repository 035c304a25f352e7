"""What a field of a result means, read from the tables of CONVENTIONS.md, which the package carries."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.name_units import unit_of_name

CONVENTIONS = Path(__file__).with_name("conventions.md")  # a link to the one at the top of the repository
ELSEWHERE = r"(as in|sum is|the stages as|gives|with) `[^`]+`"  # in a meaning: a name that is no key
BEFORE = "as above"  # the meaning of a field that an earlier table has defined


class ResultField(NamedTuple):
    """A field of a result: its unit by its name, and its type and meaning in each kind of result."""

    field: str
    unit: str | None
    meanings: list[str]


def explain_result(field: str) -> ResultField | None:
    """A field of a result, or a key of one that is an object (`energy_by_cause_j.mac`); None if no result has it."""
    if field in result_fields():
        return result_fields()[field]
    name, _, below = field.partition(".")
    said = [row.said for row in _table_rows() if name in row.names and row.is_object(name) and below in _keys(row)]
    return ResultField(field, unit_of_name(field) or unit_of_name(name), said) if said else None


def _keys(row: "Row") -> set[str]:
    """Keys that a row names, and those of the rows that it refers to."""
    like = [other for other in _table_rows() for name in row.like if name in other.names and other.is_object(name)]
    return {key for each in (row, *like) for key in each.keys}


@lru_cache(maxsize=1)
def result_fields() -> Mapping[str, ResultField]:
    """All fields of results."""
    found, within = dict[str, list[str]](), dict[str, list[str]]()
    for row in _table_rows():
        for name in row.names:
            found.setdefault(name, []).append(row.said)
        for name in row.within:
            within.setdefault(name, []).append(row.said)
    found |= {name: meanings for name, meanings in within.items() if name not in found}
    return {name: ResultField(name, unit_of_name(name), meanings) for name, meanings in found.items()}


class Row(NamedTuple):
    """A row of a table of fields. said: the row as a sentence; meaning: its last cell."""

    names: list[str]
    kind: str
    meaning: str
    said: str

    @property
    def within(self) -> list[str]:
        """Parts of these fields that stand by themselves."""
        return [name for name in dict.fromkeys(re.findall(r"`(\w+)`", self.meaning)) if name not in self.names]

    @property
    def keys(self) -> list[str]:
        """Keys of an object, and keys below those that a clause begins with: `limits.commands`."""
        found = list[str]()
        for clause in re.sub(ELSEWHERE, "", self.meaning).split("; "):
            head, _, rest = clause.partition(": ")
            if clause.startswith("null"):
                continue
            if not rest or re.sub(r"`[^`]+`|, ", "", head):  # words, too
                found += _named(clause)
            else:
                found += [*_named(head), *(f"{key}.{below}" for key in _named(head) for below in _named(rest))]
        return found

    @property
    def like(self) -> list[str]:
        """Fields whose keys these have, too."""
        return re.findall(r"as in `(\w+)`", self.meaning)

    def is_object(self, name: str) -> bool:
        """Whether a field is an object: types are one for each field, or one for all of them."""
        kinds = self.kind.split(", ")
        return "object" in (kinds[self.names.index(name)] if len(kinds) == len(self.names) else kinds[0])


def _named(text: str) -> list[str]:
    """All names, lists of names too, but no options."""
    return [name for some in re.findall(r"`([^`]+)`", text) for name in some.split(", ") if name[0] != "-"]


@lru_cache(maxsize=1)
def _table_rows() -> list[Row]:
    return list(_rows(CONVENTIONS.read_text(encoding="utf-8")))


def _rows(text: str) -> Iterator[Row]:
    """Each row of each table of fields.

    >>> head = "## A run\\n| field | type | meaning |\\n|---|---|---|\\n"
    >>> for row in _rows(head + "| `a_s`, `b_s` | | times: `x_s` |"): print(row.names, row.within, row.said)
    ['a_s', 'b_s'] ['x_s'] A run: a_s, b_s: times: x_s
    """
    section, inside = "", False
    for line in text.splitlines():
        if line.startswith("#"):
            section = re.sub(r"`|\s*\(.*\)", "", line.lstrip("# "))
        cells = [cell.strip() for cell in line.rstrip()[1:-1].split("|")] if line.startswith("|") else []
        inside = bool(cells) and (inside or re.fullmatch(r"field( of a system)?", cells[0]) is not None)
        names = re.findall(r"`(\w+)`", cells[0]) if inside and len(cells) == 3 else []
        if not names or cells[2].startswith(BEFORE):
            continue
        kind = f" ({cells[1]})" if cells[1] else ""
        said = f"{section}: {', '.join(names)}{kind}: {cells[2].replace('`', '')}"
        yield Row(names, cells[1], cells[2], said)
