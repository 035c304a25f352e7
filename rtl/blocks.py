"""The blocks a user can name: each builds a component from a part."""

from collections.abc import Callable
from typing import NamedTuple

from amaranth.lib.wiring import Component

from pimloom.arch.part import Part


class Block(NamedTuple):
    """`build(part)` makes the component; `summary` is one line for `pimloom rtl list`."""

    summary: str
    build: Callable[[Part], Component]


BLOCKS: dict[str, Block] = {}
