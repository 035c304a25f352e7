"""What a field of a result means, read from the tables of CONVENTIONS.md, which the package carries."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.name_units import unit_of_name

CONVENTIONS = Path(__file__).with_name("conventions.md")  # a link to the one at the top of the repository
BEFORE = "as above"  # the meaning of a field that an earlier table has defined


class ResultField(NamedTuple):
    """A field of a result: its unit by its name, and its type and meaning in each kind of result."""

    field: str
    unit: str | None
    meanings: list[str]


def explain_result(field: str) -> ResultField | None:
    """A field of a result, or one below it (`energy_by_cause_j.mac`); None if no result has it."""
    found = result_fields()
    name = field if field in found else field.partition(".")[0]
    return found[name]._replace(field=field, unit=unit_of_name(field)) if name in found else None


@lru_cache(maxsize=1)
def result_fields() -> Mapping[str, ResultField]:
    """All fields of results."""
    found, within = dict[str, list[str]](), dict[str, list[str]]()
    for name, meaning, of in _rows(CONVENTIONS.read_text(encoding="utf-8")):
        (within if of else found).setdefault(name, []).append(meaning)
    found |= {name: meanings for name, meanings in within.items() if name not in found}
    return {name: ResultField(name, unit_of_name(name), meanings) for name, meanings in found.items()}


def _rows(text: str) -> Iterator[tuple[str, str, bool]]:
    """Each field of each table of fields, what the table says of it, and whether it is a part of another field.

    >>> head = "## A run\\n| field | type | meaning |\\n|---|---|---|\\n"
    >>> for row in _rows(head + "| `a_s`, `b_s` | number | times: `x_s` |"): print(row)
    ('a_s', 'A run: a_s, b_s (number): times: x_s', False)
    ('b_s', 'A run: a_s, b_s (number): times: x_s', False)
    ('x_s', 'A run: a_s, b_s (number): times: x_s', True)
    """
    section, inside = "", False
    for line in text.splitlines():
        if line.startswith("#"):
            section = re.sub(r"`|\s*\(.*\)", "", line.lstrip("# "))
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")] if line.startswith("|") else []
        inside = bool(cells) and (inside or re.fullmatch(r"field( of a system)?", cells[0]) is not None)
        names = re.findall(r"`(\w+)`", cells[0]) if inside and len(cells) == 3 else []
        if not names or cells[2].startswith(BEFORE):
            continue
        kind = f" ({cells[1]})" if cells[1] else ""
        said = f"{section}: {', '.join(names)}{kind}: {cells[2].replace('`', '')}"
        yield from ((name, said, False) for name in names)
        yield from ((name, said, True) for name in dict.fromkeys(re.findall(r"`(\w+)`", cells[2])) if name not in names)
