"""Sizes of the machine, the steps of its programs, and what it holds before the first clock."""

from enum import IntEnum
from typing import NamedTuple

import msgspec
from amaranth.lib import data
from amaranth.utils import bits_for

from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.pim_channel import PimChannel
from pimloom.rtl import bf16
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu_pim.block import controller, mode_of
from pimloom.rtl.npu_pim.plan import Plan, plan_of

COUNT_BITS = 8  # of elements, words, or rows that a step works on
STEP_BITS = 8  # of the distance between two elements
LANES = 4  # of a small machine: elements of a column, banks of a channel, rows and columns of the array
COLUMNS = 4  # of a row of its banks
SHORT = {"entries": 4, "queue_entries": 4, "pim_queue_entries": 8, "window": 16, "drain_idle": 0, "offers_per_ck": 1}


class NpuKind(IntEnum):
    """What a step of the NPU's program does."""

    END = 0
    READ = 1
    GEMM = 2
    VECTOR = 3


class ChannelKind(IntEnum):
    """What a step of a channel's program does."""

    END = 0
    WRITE = 1
    DOT = 2
    VECTOR = 3


MOVE = 4  # of a vector step, behind those of `rtl/npu/vector.py`: elements as they are


def small_channel(part: Part, rows: int) -> PimChannel:
    """A channel of the part, two bank groups of two banks, behind the system's controller with short queues that sends
    a write as soon as nothing else is to be sent."""
    mode_of(part)
    geometry = {"pseudo_channels": 1, "ranks": 1, "bank_groups": 2, "banks_per_group": 2, "rows": rows}
    geometry |= {"columns": COLUMNS, "access_bits": bf16.WIDTH * LANES}
    organization = msgspec.structs.replace(part.organization, **geometry)
    capacity = organization.banks * rows * organization.row_bytes
    organization = msgspec.structs.replace(organization, capacity_bytes=capacity)
    own = msgspec.structs.replace(controller()[0], **SHORT)
    return PimChannel(msgspec.structs.replace(part, organization=organization), "dual", own)


class Sizes(NamedTuple):
    """channels: like `spec`; each has as many banks as a word has elements, and a COMP takes a word.

    words: of the scratchpad; steps: places of a program; sub_batches, layers: that jobs tell apart; longest: elements
    of a vector; depth: rows that stream through the array.
    """

    spec: PimChannel
    channels: int = 2
    words: int = 1024
    steps: int = 1024
    sub_batches: int = 2
    layers: int = 2
    longest: int = 64
    depth: int = 16

    @property
    def plan(self) -> Plan:
        """Of a channel."""
        return plan_of(self.spec)

    @property
    def lanes(self) -> int:
        """Elements of a word: bfloat16."""
        return self.spec.part.organization.access_bits // bf16.WIDTH

    @property
    def word(self) -> int:
        """Bits of a word, which are those of a column."""
        return self.spec.part.organization.access_bits

    @property
    def lane_bits(self) -> int:
        """Bits that tell the elements of a word apart."""
        return bits_for(self.lanes - 1)

    @property
    def word_bits(self) -> int:
        """Bits of a place in the scratchpad."""
        return bits_for(self.words - 1)

    @property
    def element_bits(self) -> int:
        """Bits of the place of an element there."""
        return self.word_bits + self.lane_bits

    @property
    def shape(self) -> ArrayShape:
        """Of the systolic array: a word across and a word down."""
        return ArrayShape(self.lanes, self.lanes, "ws")

    def checked(self) -> "Sizes":
        """Itself. Raises UserError for what the gates cannot have."""
        org = self.spec.part.organization
        wrong = {
            "one rank": org.ranks > 1 and f"{org.ranks} ranks",
            "a row buffer for PIM": not self.plan.dual and "one row buffer",
            "as many banks as a column has elements": org.banks != self.lanes and f"{org.banks} and {self.lanes}",
            "a power of two of columns": org.columns & (org.columns - 1) and f"{org.columns} columns",
        }
        for wanted, found in wrong.items():
            if found:
                raise UserError(f"a channel of the machine has {wanted}, not {found}")
        return self

    def place(self) -> dict[str, object]:
        """Fields of the columns that a step reads or writes: of one bank, from `place` = row x columns + column on."""
        org = self.spec.part.organization
        return {"bank": range(org.banks), "place": range(org.rows * org.columns)}

    def vector(self) -> dict[str, object]:
        """Fields of a vector step, in elements: o = op(x, y), `count` long; steps from one to the next."""
        at = self.element_bits
        return {"op": 3, "x": at, "y": at, "o": at, "count": COUNT_BITS, "x_step": STEP_BITS, "o_step": STEP_BITS}

    def npu_step(self) -> data.StructLayout:
        """READ: `count` columns of a bank to word x / lanes and on. GEMM: (m x k) at x times (k x n) at y to o, rows
        one behind the other, k and n in words. VECTOR: see `vector`. wait: for all before it."""
        gemm = {"m": COUNT_BITS, "k": COUNT_BITS, "n": COUNT_BITS}
        return data.StructLayout(
            {"kind": 2, "wait": 1, "channel": range(self.channels), **self.place(), **self.vector(), **gemm}
        )

    def channel_step(self) -> data.StructLayout:
        """WRITE: `count` columns of a bank from word x / lanes on; ends when all have issued. DOT: a PIM command, with
        results to word o / lanes. VECTOR and wait as the NPU has them."""
        return data.StructLayout({"kind": 2, "wait": 1, **self.place(), **self.vector(), "dot": self.plan.dot()})


class Image(NamedTuple):
    """What memories hold at first, as integers; what is left out is zero.

    cells: of each channel and bank its words, row by row. npu_entry: where a job's program begins, see `Npu`;
    entry: of each channel, see `Attention`.
    """

    scratchpad: list[int] = []
    cells: list[list[list[int]]] = []
    npu_program: list[int] = []
    npu_entry: list[int] = []
    program: list[list[int]] = []
    entry: list[list[int]] = []

    def of(self, name: str, channel: int) -> list[int]:
        """A channel's own, empty if there is nothing."""
        found: list[list[int]] = getattr(self, name)
        return found[channel] if found else []

    def of_banks(self, channel: int, banks: int) -> list[list[int]]:
        """The cells of a channel by bank."""
        return self.cells[channel] if self.cells else [[] for _ in range(banks)]


NOTHING = Image()
