"""Equal modules of a netlist made one: Amaranth gives every instance a module of its own."""

import re
from collections.abc import Iterator
from itertools import count

MODULE = re.compile(r"(?:^attribute [^\n]*\n)*^module (\S+)\n(.*?)^end\n+", re.DOTALL | re.MULTILINE)
CELL = re.compile(r"^  cell (\\\S+) \S+\n(?:    .*\n)*  end\n", re.MULTILINE)
WIRED = re.compile(r"(?<=^    connect )(\\port\$\d+\$\d+)(?= )", re.MULTILINE)
NUMBERED = re.compile(r"\\port\$\d+\$\d+")  # a port that Amaranth numbers over the whole design


def share(rtlil: str) -> str:
    """The netlist with each set of equal modules made one, from the leaves up.

    rtlil: a netlist in Yosys' RTLIL, as Amaranth writes it. Modules are equal where their texts are, but for their
    names and for numbers in the names of ports. All cells of a set then use the first of its modules. Nothing is
    checked: a text that is no RTLIL comes back as it is.
    """
    rtlil = _renumber(rtlil)
    while True:
        first: dict[str, str] = {}
        same: dict[str, str] = {}
        for found in MODULE.finditer(rtlil):
            name = found[1]
            if first.setdefault(found[2], name) != name:
                same[name] = first[found[2]]
        if not same:
            return rtlil
        rtlil = MODULE.sub(lambda found: "" if found[1] in same else found[0], rtlil)  # noqa: B023
        rtlil = CELL.sub(lambda use: use[0].replace(use[1], same.get(use[1], use[1]), 1), rtlil)  # noqa: B023


def _renumber(rtlil: str) -> str:
    """Numbered ports numbered module by module, so that equal modules have equal ports."""
    ports = {found[1]: _numbers(found[2]) for found in MODULE.finditer(rtlil)}

    def cell(found: re.Match[str]) -> str:
        return WIRED.sub(lambda wired: ports[found[1]][wired[1]].replace("$", "$$"), found[0])

    def module(found: re.Match[str]) -> str:
        body = CELL.sub(cell, found[0])  # what is done has two $, and no number is met again
        own = _numbers(body)
        return NUMBERED.sub(lambda port: own[port[0]], body).replace("\\port$$", "\\port$")

    return MODULE.sub(module, rtlil)


def _numbers(text: str) -> dict[str, str]:
    fresh: Iterator[int] = count()
    return {port: f"\\port${next(fresh)}" for port in dict.fromkeys(NUMBERED.findall(text))}
