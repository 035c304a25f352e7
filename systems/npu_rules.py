"""What an NPU, with PIM or alone, does where a simulator of one may do otherwise: sizes, orders, and what waits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.pim_channel import ChannelRules, Controller, Mode, PimChannel
from pimloom.arch.pim_stream import COPY
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.cycle_sim.npu.vectors import VectorOp, VectorUnits, vector_cyc
from pimloom.cycle_sim.npu_pim.fused import fused_mha
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.machine import ArrayRule, Npu, overlapped
from pimloom.cycle_sim.npu_pim.operators import WHAT_IT_NEEDS, GemmMoves, by_tile
from pimloom.cycle_sim.npu_pim.program import Builder, Operator
from pimloom.mappers.kv import Cache, Shape, attend, logit
from pimloom.mappers.partition import subset_sums

NPU, PIM, RESULTS = range(3)  # ports
ACTIVATION_BYTES = 512 * 2**20  # casys-kaist/NeuPIMs@f299af3: the buffer before the cache


APART = 2  # windows of requests between two of one address: those of a window need not come in turn


@dataclass(frozen=True)
class NpuRules:
    """The physics of `system`. A reproduction overrides what its simulator does otherwise (`systems/reference`)."""

    system: NpuPimSystem

    @property
    def alone(self) -> bool:
        """Whether there is no PIM."""
        return self.system.dram.row_buffers == "none"

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.system.npu.element_bits // BITS_PER_BYTE

    # the machine

    def check(self, part: Part) -> None:
        """Raise UserError for a machine that these rules do not know."""

    @property
    def no_prompts(self) -> str | None:
        """Why a request cannot have several new tokens; None: it can."""
        return None

    def arrays(self) -> ArrayRule:
        """How steps of the arrays follow each other."""
        npu = self.system.npu
        return overlapped(npu.rows, npu.gemv_load_cyc, clamped=self.alone)

    def address_bytes(self, weight_bytes: int, tp: int) -> int:
        """After which the NPU's addresses begin again, weights of `weight_bytes` being shared by `tp` devices."""
        return weight_bytes // tp

    def apart_bytes(self, line_bytes: int) -> int:
        """The least of these addresses: what a channel may hold of lines comes twice before one comes again, as a read
        is answered with one of its line that waits."""
        return APART * self.controller.window * self.system.dram.channels * line_bytes

    def machine(self, npu: Npu) -> Npu:
        """The NPU, which the rest of a device has described, with how it sends and takes notice."""
        return npu._replace(starts_early=False)

    @property
    def controller(self) -> Controller:
        """The controller of a channel."""
        return self.system.controller

    @property
    def channel_rules(self) -> ChannelRules:
        """When what may issue in a channel."""
        return ChannelRules()

    def channel(self, part: Part) -> PimChannel:
        """One channel of a device behind its controller."""
        dram = self.system.dram
        mode: Mode = "dram" if dram.row_buffers == "none" else dram.row_buffers
        return PimChannel(part, mode, self.controller, self.channel_rules, dram.pim_precharge)

    # operators and stages

    def pause(self, after: Sequence[int], stages: dict[str, list[int]]) -> int:
        """Clocks that an operator waits behind the end of those in `after`. stages: last operators of those before."""
        return 0

    @property
    def between_stages_ck(self) -> int:
        """Clocks from the end of a stage until the next one begins."""
        return 0

    def counted_ck(self, total_ck: int, stages: int) -> int:
        """What the total says of `total_ck`, in which so many stages ran."""
        return total_ck

    def vector_cyc(self, op: VectorOp, elements: int, rows: int = 1) -> int:
        """Cycles of `rows` rows of `elements` elements each on the vector units."""
        npu = self.system.npu
        return vector_cyc(VectorUnits(npu.vector_units, npu.vector_lanes), op, elements, rows)

    def rows_cyc(self, does: VectorOp, rows: int, width: int) -> int:
        """Cycles of the vector units on as many of `rows` rows as they take at once."""
        return self.vector_cyc(does, width, min(rows, self.system.npu.rows))

    def vector_rows(self, b: Builder, op: Operator, does: VectorOp, sizes: tuple[int, int, int], terms: int) -> None:
        """Rows on the vector units. sizes: rows, elements of each of the `terms` that come in for one, and of what goes
        out."""
        rows, width, out = sizes
        cycles, tile = self.rows_cyc(does, rows, width), self.system.npu.rows
        by_tile(b, op, rows, width * self.element_bytes, terms, cycles, tile, out * self.element_bytes)

    @property
    def gemm_moves(self) -> GemmMoves:
        """What a GEMM loads and stores, in which order."""
        return WHAT_IT_NEEDS

    # attention

    def in_turn(self, requests: Sequence[int], caches: Sequence[Cache]) -> Sequence[int]:
        """The requests of a sub-batch in the order in which attention takes them."""
        return requests

    def fused_mha(self, b: Builder, op: Operator, tokens: Sequence[int], heads: Heads) -> None:
        """Attention of one new token of each request on the arrays."""
        fused_mha(b, op, tokens, heads)

    @property
    def pim_singly(self) -> bool:
        """Whether one PIM command leaves in a clock, for all channels together."""
        return False

    @property
    def pim_port(self) -> int:
        """By which PIM commands enter a channel."""
        return PIM

    @property
    def results_port(self) -> int:
        """By which logits and results of attend enter a channel."""
        return RESULTS

    @property
    def each_by_itself(self) -> bool:
        """Whether a request's product with V waits for its own logits only."""
        return True

    def logit(self, shape: Shape, tokens: int, row: int) -> np.ndarray:
        """Commands of q x K of a request whose keys begin in `row`."""
        return self.operands_placed(shape, logit(shape, tokens, row, fused=self.fused, exact=True))

    def attend(self, shape: Shape, tokens: int, row: int) -> np.ndarray:
        """Commands of softmax(l) x V of a request whose values begin in `row`."""
        return self.operands_placed(shape, attend(shape, tokens, row, fused=self.fused, exact=True))

    @property
    def fused(self) -> bool:
        """Whether one command stands for all COMPs of a dot product."""
        return self.system.dram.row_buffers == "dual"

    def row_bytes(self, shape: Shape) -> int:
        """Bytes of a row index: that row of all banks of all channels."""
        return shape.row * self.element_bytes * shape.banks * self.system.dram.channels

    def operands_placed(self, shape: Shape, stream: np.ndarray) -> np.ndarray:
        """The stream with q and logits where they lie: at the end of the buffer of activations."""
        stream["row"][stream["cmd"] == COPY] = ceil_div(ACTIVATION_BYTES, self.row_bytes(shape)) - 1
        return stream

    def logits_seen(self, tokens: int) -> int:
        """Logits of a head that the vector units take beside PIM."""
        return tokens

    @property
    def sums_by_tile(self) -> bool:
        """Whether results of attend are summed and stored for each tile of V, not for each head."""
        return False

    def stores_sums(self, partial: int) -> bool:
        """Whether what `partial` results of attend come to is written."""
        return True

    def sum_cyc(self, partial: int, width: int) -> int:
        """Cycles until `partial` results of attend of `width` elements are one."""
        return (partial - 1) * self.vector_cyc("add", width)

    # memory, batches, devices

    def allotted(self, heads: int, kv_heads: int, head_dim: int, banks: int) -> int:
        """Elements of a token that rows are reserved for: of this device's `kv_heads` of all `heads`, in whole tiles of
        V."""
        return kv_heads * ceil_div(head_dim, banks) * banks

    @property
    def weights_take_rows(self) -> bool:
        """Whether the rows of weights are none of the caches'."""
        return True

    def divide(self, channel: np.ndarray, parts: int, estimates: Callable[[], Sequence[int]]) -> list[np.ndarray]:
        """The requests of each sub-batch, of the channel of each: equal estimates in each channel."""
        return subset_sums(estimates(), channel, self.system.dram.channels, parts)

    @property
    def devices_talk(self) -> bool:
        """Whether devices that share a model exchange what they compute."""
        return True
