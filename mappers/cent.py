"""A decoder layer of Llama on AiM channels as CENT places it: host instructions, operator by operator.

Where things lie and in which order they are worked on [secondary CENT]: Yufeng98/CENT@8c79786, cent_simulation,
restated; checked against the counts and cycles of its generator in `tests/test_cent.py`. A layer has `block_channels`
channels; as many layers as fit work side by side in a device, each instruction for all. A matrix is dealt over all
banks, an output to a bank; keys lie token by token over the banks, values dimension by dimension over the banks of a
channel.
"""

from array import array
from typing import NamedTuple

import numpy as np

from pimloom.arch.aim import COMMANDS, N_INSTRUCTION, NOTHING, SYNC
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.units import ceil_div

OP = {name: op for op, name in enumerate(COMMANDS)}
GROUP = 4  # banks of a group: two that EWMUL multiplies, one for the product
LEFT, RIGHT, PRODUCT = range(3)
ROPE = 2  # elements for each: a pair with its rotation


class Layer(NamedTuple):
    """Sizes of a layer."""

    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int

    @property
    def repeat(self) -> int:
        """Query heads that share a head of keys."""
        return self.heads // self.kv_heads


class Place(NamedTuple):
    """Where layers lie. channels, banks of each, elements of a row and of a column; block_channels: of a layer;
    devices: that share its matrices; latches: accumulators of a bank that are written before they are read; longest:
    tokens for which there is room; layers: in a device, None: as many as have room, as CENT's code has it, which gives
    an instruction that not all channels of a layer need to more layers than there are."""

    channels: int
    banks: int
    row: int
    column: int
    block_channels: int
    devices: int
    latches: int
    longest: int
    layers: int | None = None

    @property
    def layer_banks(self) -> int:
        """Banks of a layer in one device."""
        return self.block_channels * self.banks

    @property
    def all_banks(self) -> int:
        """Banks of a layer in all devices that share it."""
        return self.layer_banks * self.devices

    @property
    def side_by_side(self) -> int:
        """Layers in a device."""
        return max(self.channels // self.block_channels, 1) if self.layers is None else self.layers


LLAMA: dict[str, tuple[object, ...]] = {  # fields of a model, and the values that CENT has instructions for
    "gated_ffn": (True,), "norm": ("rmsnorm",), "num_experts": (1,), "activation": ("silu", "swish"),
    "attention_bias": (False,), "ffn_bias": (False,), "sliding_window": (None,), "parallel_attention": (False,),
    "norm_placement": ("pre",), "qk_norm": ("none",), "scaled_embedding": (False,), "kv_lora_rank": (None,),
    "attn_logit_softcapping": (False,), "final_logit_softcapping": (False,), "attention_sinks": (False,),
    "rotary_dim": (None,),
}  # fmt: skip


def layer_of(llm: LlmSpec) -> Layer:
    """Raises UserError for what CENT has no instructions for."""
    for field, values in LLAMA.items():
        value = getattr(llm, field)
        if value not in values:
            known = " or ".join(map(str, values))
            raise UserError(f"{llm.name}: {field} is {value}; CENT runs layers of Llama 2, with {field} {known}")
    heads = llm.num_attention_heads, llm.num_key_value_heads
    return Layer(llm.hidden_size, *heads, llm.head_dim, llm.intermediate_size)


class Program:
    """Instructions as they are added, for all channels of the layers that work side by side."""

    def __init__(self, place: Place) -> None:
        self.place, self._words = place, array("q")  # N_INSTRUCTION of each
        self._cuts = list[tuple[str, int]]()
        self._used = 0

    def rows(self, n: int) -> int:
        """The first of n rows that nothing else has."""
        self._used += n
        return self._used - n

    def mask(self, channels: int) -> int:
        """The first channels."""
        return ((1 << channels) - 1) << (self.place.channels - channels)

    def of_layers(self, needed: int) -> int:
        """The first `needed` channels of each layer."""
        place = self.place
        if place.layers is None:
            return self.mask(place.channels if needed > place.channels else place.channels // needed * needed)
        first = self.mask(min(needed, place.block_channels))
        return sum(first >> place.block_channels * layer for layer in range(place.layers))

    def add(
        self, name: str, times: int = 1, mask: int | None = None, bank: int = -1, row: int = -1, n: int = 1
    ) -> None:
        """One instruction for the channels of a mask (None: of all layers), n times."""
        channels = self.of_layers(self.place.block_channels) if mask is None else mask
        self._words.extend((OP[name], times, channels, bank, row) * n)

    def wait(self) -> None:
        """SYNC, or EOC at the end."""
        self._words.extend((SYNC, 1, 0, -1, -1))

    def pass_by(self) -> None:
        """What no channel sees: a sum in the near-memory unit."""
        self._words.extend((NOTHING, 0, 0, -1, -1))

    def access(self, name: str, columns: int, banks: np.ndarray, row: int) -> None:
        """RD or WR of so many columns of each of a layer's banks, column by column, for all layers."""
        self._access(name, columns, banks, row, np.arange(self.place.side_by_side))

    def access_in_turn(self, name: str, columns: int, bank: int, row: int) -> None:
        """The same of one bank, layer by layer."""
        for layer in range(self.place.side_by_side):
            self._access(name, columns, np.array([bank]), row, np.array([layer]))

    def _access(self, name: str, columns: int, banks: np.ndarray, row: int, layers: np.ndarray) -> None:
        place = self.place
        channel = (banks // place.banks)[:, None] + place.block_channels * layers
        bank = np.broadcast_to((banks % place.banks)[:, None], channel.shape).ravel()
        mask = np.left_shift(np.int64(1), place.channels - 1 - channel.ravel() % place.channels)
        once = np.stack([np.full_like(mask, OP[name]), np.ones_like(mask), mask, bank, np.full_like(mask, row)], axis=1)
        self._words.frombytes(once.astype(np.int64).tobytes() * columns)

    def rowed(self, name: str, times: int, rows: np.ndarray, mask: int) -> None:
        """An instruction for each of several rows."""
        found = np.tile(np.array([OP[name], times, mask, -1, 0], np.int64), (len(rows), 1))
        found[:, -1] = rows
        self._words.frombytes(found.tobytes())

    def cut(self, name: str) -> None:
        """What was added since the last cut is a piece of this name."""
        self._cuts.append((name, len(self._words) // N_INSTRUCTION))

    def pieces(self) -> list[tuple[str, np.ndarray]]:
        """Instructions by the names of their pieces, in order."""
        starts = [0, *(end for _, end in self._cuts)]
        every = self._instructions()
        return [(name, every[start:end]) for start, (name, end) in zip(starts, self._cuts, strict=False)]

    def end(self) -> np.ndarray:
        """int64[instructions, N_INSTRUCTION], the last one EOC."""
        self.wait()
        return self._instructions()

    def _instructions(self) -> np.ndarray:
        return np.array(self._words, np.int64).reshape(-1, N_INSTRUCTION)


def columns_of(elements: int, place: Place) -> int:
    """Columns that hold so many elements."""
    return ceil_div(elements, place.column)


def gemv(p: Program, row: int, n_in: int, n_out: int, function: bool = False) -> None:
    """A matrix times a vector that comes in pieces of a row, each into the global buffer: for each piece the banks take
    as many outputs at a time as they have accumulators (half of them where an activation function follows)."""
    place = p.place
    each = ceil_div(n_out, place.all_banks)
    needed = ceil_div(ceil_div(n_out, each), place.banks)
    mask = p.of_layers(needed)
    pieces = ceil_div(n_in, place.row)
    groups = ceil_div(each, place.latches // 2 if function else place.latches)
    size = ceil_div(each, groups)
    for piece in range(pieces):
        columns = columns_of(min(n_in - piece * place.row, place.row), place)
        p.add("WRGB", columns, mask)
        for first in range(0, each, size):
            n = min(size, each - first)
            p.add("WRMAC16", 1, mask, n=n)
            p.rowed("MAC16", columns, row + (first + np.arange(n)) * pieces + piece, mask)
            if function and piece == pieces - 1:
                for _ in range(n):
                    p.add("AF16", 1, mask, row=FUNCTION_ROW)
                    p.add("RDAF16", 1, mask)
            p.add("RDMAC16", 1, mask, n=n)


FUNCTION_ROW = 1 << 29  # [secondary AIM] of function 0, which CENT never changes


def gemv_rows(place: Place, n_in: int, n_out: int) -> int:
    """Rows of a bank that a matrix takes."""
    return ceil_div(n_out, place.all_banks) * ceil_div(n_in, place.row)


def spread(place: Place, n: int, parts: int, offset: int) -> tuple[np.ndarray, int]:
    """The banks of a layer that hold a vector of n elements in one bank of `parts`, and the elements of each."""
    size = ceil_div(n, place.layer_banks // parts)
    return np.arange(ceil_div(n, size)) * parts + offset, size


def multiply(p: Program, n: int, source: int, target: int) -> None:
    """Products of a vector in `source`, copied beside its weights in `target`, and these products."""
    columns = columns_of(ceil_div(n, p.place.layer_banks // GROUP), p.place)
    p.add("EWMUL16", columns, row=source)
    for group in range(p.place.banks // GROUP):
        p.add("RDCP", columns, bank=GROUP * group + PRODUCT, row=source)
        p.add("WRCP", columns, bank=GROUP * group + RIGHT, row=target)


def move(p: Program, name: str, n: int, side: int, row: int) -> None:
    """Read or write a vector of n elements in one bank of each group."""
    banks, size = spread(p.place, n, GROUP, side)
    p.access(name, columns_of(size, p.place), banks, row)
