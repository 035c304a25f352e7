"""A block cut into modules that are synthesised by themselves, each once however often it is there.

What a piece is given at its ports is not known inside it: constants do not go in, and paths end at its edges.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from amaranth.lib.wiring import Component

from pimloom.rtl.verilog import to_raw_verilog
from verilog_tidy.design import MODULE

TOP = "block"
NAME = r"(\\\S+|\w+)"
HEAD = re.compile(rf"module {NAME}\s*\(")
INSTANCE = re.compile(rf"^ *{NAME} +{NAME} *\(", re.MULTILINE)
SUMS = ("cells", "flip_flops", "memory_bits", "area_um2", "nand2_equivalents", "lut4", "ff", "dsp", "bram")
Counts = dict[str, Any]


class Piece(NamedTuple):
    """A module by itself. verilog: its own as `block`, and of what is flattened into it; beside: of `inner`, the pieces
    that it instantiates."""

    module: str
    verilog: str
    beside: str
    inner: frozenset[str]


def pieces_of(component: Component) -> list[Piece]:
    """The pieces of a block, the block itself last.

    They are the modules that it instantiates by name (`modules`), at any depth, and those right below it.
    """
    return cut(to_raw_verilog(component, TOP), set(_by_name(component)))


def cut(verilog: str, by_name: set[str]) -> list[Piece]:
    """The pieces of Verilog whose top is `block`.

    >>> text = "module block(a);\\n  inner x (\\n    .a(a)\\n  );\\nendmodule\\nmodule inner(a);\\nendmodule\\n"
    >>> [(piece.module, sorted(piece.inner)) for piece in cut(text, set())]
    [('inner', []), ('block', ['inner'])]
    """
    texts = {_plain(HEAD.match(found[0])): found[0] for found in MODULE.finditer(verilog)}
    uses = {name: _used(text, texts) for name, text in texts.items()}
    pieces = {TOP, *by_name, *uses[TOP]} & set(texts)
    order = [name for name in _deepest_first(TOP, uses) if name in pieces]
    return [_piece(name, texts, uses, pieces) for name in order]


def total(own: Mapping[str, Counts], top: str = TOP) -> Counts:
    """What a block costs, from what its pieces do by module: each with `inner`, how many it has of each other.

    Counts and areas are added up, `path_ps` is the longest within a piece, `fmax_mhz` the lowest of those that have it;
    None where a piece has none.
    """
    known: dict[str, Counts] = {}

    def of(module: str) -> Counts:
        if module not in known:
            mine, inner = own[module], own[module]["inner"]
            below = [(number, of(each)) for each, number in inner.items()]
            found: Counts = {key: value for key, value in mine.items() if key != "inner"}
            for key in SUMS:
                if key in mine:
                    terms = [mine[key], *(None if one[key] is None else n * one[key] for n, one in below)]
                    found[key] = None if None in terms else sum(terms)
            for key, worst in (("path_ps", max), ("fmax_mhz", min)):
                terms = [one[key] for one in (mine, *(one for _, one in below)) if key in one]
                if terms:
                    found[key] = None if None in terms else worst(terms)
            known[module] = found
        return known[module]

    return of(top)


def _by_name(component: Component) -> Iterator[str]:
    modules: Mapping[str, Component] = getattr(component, "modules", {})
    for name, module in modules.items():
        yield name
        yield from _by_name(module)


def _plain(head: re.Match[str] | None) -> str:
    assert head is not None
    return head[1].removeprefix("\\")


def _used(text: str, known: Mapping[str, str]) -> list[str]:
    """Modules that a module instantiates, each once."""
    found = (each[1].removeprefix("\\") for each in INSTANCE.finditer(text))
    return list(dict.fromkeys(name for name in found if name in known))


def _deepest_first(name: str, uses: Mapping[str, list[str]]) -> list[str]:
    order = dict[str, None]()

    def visit(name: str) -> None:
        for below in uses[name]:
            visit(below)
        order.setdefault(name)

    visit(name)
    return list(order)


def _piece(name: str, texts: Mapping[str, str], uses: Mapping[str, list[str]], pieces: set[str]) -> Piece:
    own, inner, waiting = [name], set[str](), [name]
    while waiting:
        for below in uses[waiting.pop()]:
            if below in pieces:
                inner.add(below)
            elif below not in own:
                own.append(below)
                waiting.append(below)
    as_block = HEAD.sub(f"module {TOP} (", texts[name], count=1)
    verilog = "\n".join([as_block, *(texts[each] for each in own[1:])])
    return Piece(name, verilog, "\n".join(texts[each] for each in sorted(inner)), frozenset(inner))
