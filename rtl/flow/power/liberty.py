"""A small reader of Liberty: of each cell its function, pins, energies and leakage.

Liberty: `group (names) { attribute : value; attribute ("a", "b"); group … }`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pimloom.rtl.flow.yowasp import ToolError

TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([{}():;,])|([^\s{}():;,"]+)', re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass
class Group:
    """A group: its kind and names, attributes by name, and the groups in it."""

    kind: str
    names: list[str]
    values: dict[str, list[str]] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)

    def of(self, kind: str) -> Iterator["Group"]:
        """The groups of that kind in it."""
        return (group for group in self.groups if group.kind == kind)

    def number(self, name: str, default: float = 0.0) -> float:
        """A value that is a number."""
        return float(self.values[name][0]) if name in self.values else default

    def text(self, name: str) -> str | None:
        """A value as it is written."""
        return self.values[name][0] if name in self.values else None


class Energies(NamedTuple):
    """Energy of a change [pJ], rising and falling meant, by load [pF] and slew of the input [ns]; loads: empty for a
    pin without a load."""

    loads: np.ndarray
    slews: np.ndarray
    pj: np.ndarray

    def at(self, load: float, slew: float) -> float:
        """Between the points of the table, and at its edge beyond them [pJ]."""
        by_load = [float(np.interp(slew, self.slews, row)) for row in np.atleast_2d(self.pj)]
        return float(np.interp(load, self.loads, by_load)) if len(self.loads) else by_load[0]


class Pin(NamedTuple):
    """capacitance [pF]; function: of an output, as Liberty has it; energies: of its change."""

    output: bool
    capacitance: float
    function: str | None
    energies: list[Energies]


class Cell(NamedTuple):
    """A cell. state: (next state, clock, output's names) of a flip-flop; simple: there is no other state in it."""

    pins: dict[str, Pin]
    leakage: float
    state: tuple[str, str, list[str]] | None
    simple: bool


class Library(NamedTuple):
    """Cells by name; volts: nominal; leakage_nw: the unit of `leakage`."""

    cells: dict[str, Cell]
    volts: float
    leakage_nw: float


def read_library(text: str) -> Library:
    """Cells of a library whose loads are in pF and voltages in V. Raises ToolError for other units."""
    library = read(text)
    if library.values.get("capacitive_load_unit", ["1", "pf"])[1].lower() != "pf":
        raise ToolError(f"library {library.names[0]}: power is for libraries whose loads are in pF")
    unit = re.fullmatch(r"([\d.]+)([munp]?)W", library.text("leakage_power_unit") or "1nW")
    scale = {"": 1e9, "m": 1e6, "u": 1e3, "n": 1.0, "p": 1e-3}
    leakage_nw = float(unit[1]) * scale[unit[2]] if unit else 1.0
    return Library({g.names[0]: _cell(g) for g in library.of("cell")}, library.number("nom_voltage"), leakage_nw)


def _cell(group: Group) -> Cell:
    pins = {each.names[0]: _pin(each) for each in group.of("pin")}
    (state, *_) = [*group.of("ff"), None]
    simple = not any(True for kind in ("latch", "statetable", "ff_bank") for _ in group.of(kind))
    if state is None:
        return Cell(pins, group.number("cell_leakage_power"), None, simple)
    simple = simple and not {"clear", "preset"} & set(state.values)
    found = (state.text("next_state") or "", state.text("clocked_on") or "", state.names)
    return Cell(pins, group.number("cell_leakage_power"), found, simple)


def _pin(group: Group) -> Pin:
    energies = [_energies(each) for each in group.of("internal_power")]
    output = group.text("direction") == "output"
    return Pin(output, group.number("capacitance"), group.text("function"), [e for e in energies if e is not None])


def _energies(group: Group) -> Energies | None:
    tables = [table for kind in ("rise_power", "fall_power") for table in group.of(kind)]
    if not tables:
        return None
    first, second = _numbers(tables[0], "index_1"), _numbers(tables[0], "index_2")
    shape = (len(first), len(second)) if len(second) else (len(first),)
    meant = np.mean([_numbers(table, "values").reshape(shape) for table in tables], axis=0)
    return Energies(first, second, meant) if len(second) else Energies(second, first, meant)


def _numbers(group: Group, name: str) -> np.ndarray:
    texts = " ".join(group.values.get(name, ())).replace(",", " ").replace("\\", " ")
    return np.array([float(each) for each in texts.split()])


def read(text: str) -> Group:
    """The outermost group of a Liberty file.

    >>> read('library (x) { a : 1; cell (y) { b ("1, 2"); } }').groups[0].values
    {'b': ['1, 2']}
    """
    tokens = [m[1] if m[1] is not None else m[2] or m[3] for m in TOKEN.finditer(COMMENT.sub(" ", text))]
    tokens = [token for token in tokens if token != "\\"]
    top = Group("", [])
    _body(tokens, 0, top)
    return top.groups[0]


def _body(tokens: Sequence[str], at: int, into: Group) -> int:
    while at < len(tokens) and tokens[at] != "}":
        name = tokens[at]
        if tokens[at + 1] == ":":
            into.values[name] = [tokens[at + 2]]
            at += 3
        else:
            end = tokens.index(")", at)
            words = [token for token in tokens[at + 2 : end] if token != ","]
            if tokens[end + 1 : end + 2] == ["{"]:
                inner = Group(name, words)
                into.groups.append(inner)
                end = _body(tokens, end + 2, inner)
            else:
                into.values[name] = words
            at = end + 1
        if at < len(tokens) and tokens[at] == ";":
            at += 1
    return at
