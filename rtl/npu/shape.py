"""Rows, columns and dataflow of a systolic array, and what crosses its edges."""

from typing import Literal, NamedTuple, TypeAlias, get_args

from amaranth.lib.data import StructLayout
from amaranth.utils import bits_for

from pimloom.arch.error import UserError
from pimloom.rtl import bf16, float32

Dataflow: TypeAlias = Literal["ws", "os"]
DATAFLOWS: tuple[Dataflow, ...] = get_args(Dataflow)
LARGEST = 256  # rows or columns


class ArrayShape(NamedTuple):
    """An array of `rows` x `columns` processing elements; weight stationary, "ws", or output stationary, "os"."""

    rows: int = 4
    columns: int = 4
    dataflow: Dataflow = "ws"

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns} {self.dataflow}"


def array_shape(rows: int = 4, columns: int = 4, dataflow: str = "ws") -> ArrayShape:
    """The shape, if an array can have it. Raises UserError.

    >>> str(array_shape(8, 4, "os"))
    '8x4 os'
    """
    for name, size in (("rows", rows), ("columns", columns)):
        if not 1 <= size <= LARGEST:
            raise UserError(f"--{name} {size}: an array has 1 to {LARGEST} {name}")
    for known in DATAFLOWS:
        if dataflow == known:
            return ArrayShape(rows, columns, known)
    raise UserError(f"--dataflow {dataflow}: unknown dataflow; known: ws (weight stationary), os (output stationary)")


def activation(dataflow: Dataflow) -> StructLayout:
    """What goes right, bfloat16. ws: `first` of a tile; os: `last` product of a tile, and whether the row is the
    `lowest` of the tile."""
    marks = {"first": 1} if dataflow == "ws" else {"last": 1, "lowest": 1}
    return StructLayout({"x": bf16.WIDTH, **marks, "valid": 1})


def weight(shape: ArrayShape) -> StructLayout:
    """What goes down, bfloat16. ws: `fall`, the rows that it has yet to pass before it stays."""
    marks = {"fall": bits_for(shape.rows - 1)} if shape.dataflow == "ws" else {}
    return StructLayout({"x": bf16.WIDTH, **marks, "valid": 1})


RESULT = StructLayout({"x": float32.WIDTH, "valid": 1})
