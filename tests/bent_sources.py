"""Expressions of a block's source, each replaced by others in the gates: all in one netlist, of which a number that the
simulation reads at its start takes one."""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from amaranth.hdl import Instance, Module, Mux, Signal, Value, ValueLike
from amaranth.lib.wiring import Component

WIDTH = 16
WHICH = """
module mutant(output [15:0] number);
  reg [15:0] word, words [0:0];
  initial begin $readmemh("{file}", words); word = words[0]; end
  assign number = word;
endmodule
"""


class Edit(NamedTuple):
    """A text in a function's source, and what it may say instead. Backticks: only what is between them."""

    text: str
    others: Sequence[str]

    @property
    def old(self) -> str:
        return self.text.split("`")[1] if "`" in self.text else self.text

    def span(self, source: str) -> tuple[int, int]:
        """Where `old` stands."""
        plain = self.text.replace("`", "")
        assert source.count(plain) == 1, (plain, source.count(plain))
        begin = source.index(plain) + max(self.text.find("`"), 0)
        return begin, begin + len(self.old)


def off_by_one(*texts: str) -> list[Edit]:
    """A number that is one more, or one less."""
    edits = (Edit(text, ()) for text in texts)
    return [edit._replace(others=(f"({edit.old}) + 1", f"({edit.old}) - 1")) for edit in edits]


def either_half(text: str, *others: str) -> Edit:
    """Of two conditions joined by & or | either alone, and what else is said."""
    edit = Edit(text, ())
    sign = " & " if " & " in edit.old else " | "
    return edit._replace(others=(*edit.old.split(sign, 1), *others))


Edits = dict[tuple[type, str], Sequence[Edit]]  # by class and name of the function


class Bent(NamedTuple):
    """What each number stands for, from 1 on; the signal that holds it; the file that says which one, 0 for none."""

    said: list[str]
    number: Signal
    which: Path

    def take(self, number: int) -> None:
        self.which.write_text(f"{number:x}\n")

    def verilog(self, written: str) -> str:
        """With the module that reads the number."""
        return written + WHICH.format(file=self.which)


def bend(edits: Edits, folder: Path, monkeypatch: Any) -> Bent:
    """All functions with all their alternatives; `reading` makes a top module of them."""
    bent = Bent([], Signal(WIDTH, name="mutant"), folder / "which.hex")
    for (owner, name), own in edits.items():
        monkeypatch.setattr(owner, name, _function(owner, name, own, bent))
    return bent


def reading(top: Component, bent: Bent) -> Component:
    """The same component, which reads the number."""
    elaborate = top.elaborate

    def with_number(platform: object) -> Module:
        m = elaborate(platform)
        m.submodules.mutant = Instance("mutant", o_number=bent.number)
        return m

    top.elaborate = with_number
    return top


def _function(owner: type, name: str, edits: Sequence[Edit], bent: Bent) -> Callable[..., Any]:
    was = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(was))
    spans = sorted((*edit.span(source), edit) for edit in edits)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False)), (owner, name)
    for begin, end, edit in reversed(spans):
        choice = ", ".join((edit.old, *_numbered(owner, name, edit, bent)))
        source = f"{source[:begin]}_either({choice}){source[end:]}"
    space = dict(was.__globals__) | {owner.__name__: owner, "_either": _chooser(bent)}
    exec(compile(source.replace("super()", f"super({owner.__name__}, self)"), f"<bent {name}>", "exec"), space)
    return space[name]


def _numbered(owner: type, name: str, edit: Edit, bent: Bent) -> Iterator[str]:
    for other in edit.others:
        bent.said.append(f"{owner.__name__}.{name}: {edit.text} -> {other}")
        yield f"({len(bent.said)}, {other})"


def _chooser(bent: Bent) -> Callable[..., Value]:
    def either(right: ValueLike, *others: tuple[int, ValueLike]) -> Value:
        own = Value.cast(right)
        found: Value = reduce(lambda found, other: Mux(bent.number == other[0], other[1], found), others, own)
        return found[: len(own)].as_signed() if own.shape().signed else found[: len(own)]

    return either
