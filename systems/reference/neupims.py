"""NeuPIMs' simulator (casys-kaist/NeuPIMs@f299af3 [secondary]) where it departs from physics.

Each departure has a name in `arch/neupims.py`, `faults.NAME` of a system, and is on or off by itself; what each is
worth is in docs/npu_pim.md. The simulation asks `NpuRules`; `Released` answers as that simulator does. What departs
within a channel are `channel_rules`; `arrays_drain`, `attention_serial` and `narrow_window` are of its branch without
PIM.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.neupims import Faults
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.pim_channel import ChannelRules, Controller
from pimloom.arch.units import ceil_div, mhz_to_ps
from pimloom.cycle_sim.npu.vectors import VectorOp
from pimloom.cycle_sim.npu_pim.fused import Reads, attend_steps, logit_steps
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.kernels.core import NOTHING
from pimloom.cycle_sim.npu_pim.machine import ArrayRule, Npu, drained
from pimloom.cycle_sim.npu_pim.operators import GemmMoves
from pimloom.cycle_sim.npu_pim.program import Builder, Operator
from pimloom.mappers.kv import Cache, Shape, attend, logit
from pimloom.mappers.packing import split
from pimloom.systems.npu_rules import NPU, RESULTS, NpuRules

WINDOW = 96  # requests of a channel without PIM, NewtonSim.cc:41
HEADER_BITS = 32  # NeuPIMSLogitSoftmax.cc: what it keeps of the address of a header for K
PARAMETERS = {"norm": 2, "rmsnorm": 1}  # rows that are loaded for all: beta and gamma, or gamma
NOT_BOUND = {  # timings that the simulator does not have
    "gemv_frees_row": "nENDPRE",
    "gwrites_overlap": "nGWGW",
    "gact_counts_little": "nACTGACT",
    "gact_closes_early": "nGACTPRE",
}


def rules_of(system: NpuPimSystem) -> NpuRules:
    """The rules of a system: the physics, unless it asks for departures."""
    return NpuRules(system) if system.faults == Faults() else Released(system)


def channel_rules(faults: Faults) -> ChannelRules:
    """What issues when in a channel of that simulator."""
    return ChannelRules(
        unbound=tuple(timing for name, timing in NOT_BOUND.items() if getattr(faults, name)),
        group_counted=not faults.gact_counts_little,
        gemv_answers_last=not faults.gemv_answers_early,
        tiles_whole=not faults.headers_early,
        slack_exact=not faults.slack_stale,
    )


class Released(NpuRules):
    """The simulator as released, or with some of its departures."""

    @property
    def faults(self) -> Faults:
        """Which departures are on."""
        return self.system.faults

    def check(self, part: Part) -> None:
        """Its interconnect knows one clock only."""
        clock_mhz = self.system.npu.clock_mhz
        if self.faults.interconnect and mhz_to_ps(clock_mhz) != part.tCK_ps:
            raise UserError(
                "npu.clock_mhz: with faults.interconnect expected the clock of the memory, whose period is "
                f"{part.tCK_ps} ps, got {clock_mhz:g} MHz; --set npu.clock_mhz={1e6 / part.tCK_ps:.10g}"
            )

    @property
    def no_prompts(self) -> str | None:
        """It has none."""
        said = "faults.queues_in_order: NeuPIMs' simulator computes no prompts; take --fidelity physical"
        return said if self.faults.queues_in_order else None

    def arrays(self) -> ArrayRule:
        """Without PIM weights enter when the step before has its result."""
        npu = self.system.npu
        return drained(npu.rows, npu.gemv_load_cyc) if self.alone and self.faults.arrays_drain else super().arrays()

    def address_bytes(self, weight_bytes: int, tp: int) -> int:
        """Without PIM addresses go on over the weights of all devices."""
        whole = self.alone and self.faults.blocks_shifted
        return weight_bytes if whole else super().address_bytes(weight_bytes, tp)

    def apart_bytes(self, line_bytes: int) -> int:
        """Addresses begin again whatever is on its way."""
        return 0 if self.faults.blocks_shifted else super().apart_bytes(line_bytes)

    def machine(self, npu: Npu) -> Npu:
        """Lines in the order of a hash set, blocks an element late, queues in order, its interconnect."""
        faults = self.faults
        return npu._replace(
            hashed=faults.hashed_lines,
            starts_early=faults.starts_early,
            in_order=faults.queues_in_order,
            shift_bytes=self.element_bytes if faults.blocks_shifted else 0,
            steps=self.system.controller.offers_per_ck if faults.interconnect else 0,
            late=faults.ends_seen_late,
        )

    @property
    def controller(self) -> Controller:
        """Without PIM few requests are on their way."""
        narrow = self.alone and self.faults.narrow_window
        return msgspec.structs.replace(super().controller, window=WINDOW) if narrow else super().controller

    @property
    def channel_rules(self) -> ChannelRules:
        """See `channel_rules`."""
        return channel_rules(self.faults)

    def pause(self, after: Sequence[int], stages: dict[str, list[int]]) -> int:
        """An end is seen a cycle late: the first operator starts in cycle 1, those of a stage a cycle later."""
        begins = not after or (self.between_stages_ck and after[0] in next(reversed(stages.values()), ()))
        return int(self.faults.ends_seen_late and bool(begins))

    @property
    def between_stages_ck(self) -> int:
        """A cycle, beside PIM."""
        return int(self.faults.ends_seen_late and not self.alone)

    def counted_ck(self, total_ck: int, stages: int) -> int:
        """Its core leaves out the cycles between stages."""
        return total_ck - (stages if self.between_stages_ck else int(self.faults.ends_seen_late))

    def rows_cyc(self, does: VectorOp, rows: int, width: int) -> int:
        """No elements are seen; each row by itself."""
        if self.faults.vector_sizes_lost:
            return self.vector_cyc(does, 0)
        return super().rows_cyc(does, 1 if self.faults.vectors_by_row else rows, width)

    def vector_rows(self, b: Builder, op: Operator, does: VectorOp, sizes: tuple[int, int, int], terms: int) -> None:
        """Each row is loaded, computed and stored by itself."""
        if self.faults.vectors_by_row:
            rows, width, _ = sizes
            cycles = self.rows_cyc(does, rows, width)
            by_row(b, op, rows, width * self.element_bytes, terms, cycles, PARAMETERS.get(does, 0))
        else:
            super().vector_rows(b, op, does, sizes, terms)

    @property
    def gemm_moves(self) -> GemmMoves:
        """Strips are stored, biases belong to rows, weights come first, tiles leave early."""
        faults = self.faults
        early = faults.stores_when_idle and faults.queues_in_order
        return GemmMoves(faults.strip_stored, faults.bias_by_rows, faults.weights_first, early)

    def in_turn(self, requests: Sequence[int], caches: Sequence[Cache]) -> Sequence[int]:
        """Channel by channel."""
        by_channel = self.faults.requests_by_channel and caches
        return sorted(requests, key=lambda i: caches[i].channel) if by_channel else requests

    def fused_mha(self, b: Builder, op: Operator, tokens: Sequence[int], heads: Heads) -> None:
        """One request and head at a time."""
        (one_by_one if self.faults.attention_serial else super().fused_mha)(b, op, tokens, heads)

    @property
    def pim_singly(self) -> bool:
        """In blocked mode."""
        return self.faults.pim_dispatched_singly and self.system.dram.row_buffers == "blocked"

    @property
    def pim_port(self) -> int:
        """That of the NPU unless sub-batches interleave."""
        shared = self.faults.one_queue and self.system.interleave.sub_batches == 1
        return NPU if shared else super().pim_port

    @property
    def results_port(self) -> int:
        """Behind PIM's commands where these are shared with the NPU, or with other requests' commands."""
        return RESULTS if self.each_by_itself and self.pim_port != NPU else self.pim_port

    @property
    def each_by_itself(self) -> bool:
        """A product with V waits for the logits of all requests."""
        return not self.faults.attend_waits_for_all

    def logit(self, shape: Shape, tokens: int, row: int) -> np.ndarray:
        """Headers count COMPs in powers of two, and name rows of 32 bits."""
        exact = not self.faults.header_counts_rounded
        wraps = 2**HEADER_BITS // self.row_bytes(shape) if self.faults.header_rows_wrap else None
        stream = logit(shape, tokens, row, fused=self.fused, exact=exact, header_rows=wraps)
        return self.operands_placed(shape, stream)

    def attend(self, shape: Shape, tokens: int, row: int) -> np.ndarray:
        """Headers count in powers of two; all heads read the rows of the first one."""
        exact = not self.faults.header_counts_rounded
        stream = attend(shape, tokens, row, fused=self.fused, exact=exact, same_rows=self.faults.same_rows)
        return self.operands_placed(shape, stream)

    def operands_placed(self, shape: Shape, stream: np.ndarray) -> np.ndarray:
        """In row 0."""
        return stream if self.faults.gwrites_of_row_0 else super().operands_placed(shape, stream)

    def logits_seen(self, tokens: int) -> int:
        """Bytes are taken for elements."""
        return tokens * self.element_bytes if self.faults.vector_sizes_lost else tokens

    @property
    def sums_by_tile(self) -> bool:
        """As if each tile were a head."""
        return self.faults.adds_by_tile

    def stores_sums(self, partial: int) -> bool:
        """Not those of one row of tokens."""
        return partial > 1 or not self.faults.attend_not_stored

    def sum_cyc(self, partial: int, width: int) -> int:
        """One addition, of bytes."""
        lost = self.faults.vector_sizes_lost
        return self.vector_cyc("add", width * self.element_bytes) if lost else super().sum_cyc(partial, width)

    def allotted(self, heads: int, kv_heads: int, head_dim: int, banks: int) -> int:
        """For the heads of all devices."""
        everywhere = self.faults.cache_overallotted
        return heads * head_dim if everywhere else super().allotted(heads, kv_heads, head_dim, banks)

    @property
    def weights_take_rows(self) -> bool:
        """None are."""
        return not self.faults.cache_overallotted

    def divide(self, channel: np.ndarray, parts: int, estimates: Callable[[], Sequence[int]]) -> list[np.ndarray]:
        """Algorithm 3 as released: equal numbers, in list order."""
        if self.faults.halves_by_number:
            return split(channel, self.system.dram.channels, parts)
        return super().divide(channel, parts, estimates)

    @property
    def devices_talk(self) -> bool:
        """They do not."""
        return not self.faults.silent_devices


def by_row(b: Builder, op: Operator, rows: int, size: int, operands: int, cycles: int, shared: int = 0) -> None:
    """Rows of `size` bytes on a vector unit each: `shared` blocks are loaded for all rows, then `operands` for each,
    and each is stored by itself. cycles: of a row."""
    for_all = [b.load(op, size) for _ in range(shared)]
    for row in [[b.load(op, size) for _ in range(operands)] for _ in range(rows)]:
        b.task(op, cycles, [*row, *for_all], b.store(op, size))


def one_by_one(b: Builder, op: Operator, tokens: Sequence[int], heads: Heads) -> None:
    """Attention of one request and head at a time: logits without a load of their query, in whole rows that each array
    takes, and one step more for V where the tiles do not end with one token. V is read as a whole, and nothing of a
    request before the result of the second before it is stored, whose half of the pads it takes."""
    last, made = -1, list[list[int]]()
    for i, n in enumerate(tokens):
        gate, stores = made[i - 2][-1] if i > 1 else -1, list[int]()
        for reads in list(_whole_reads(b, op, n, heads, gate)):
            logits = logit_steps(b, op, reads, heads, max(n // heads.arrays, 1), NOTHING, last)
            stores.append(b.store(op, heads.value_bytes))
            steps = ceil_div(n + heads.tile - 1, heads.tile)
            last = attend_steps(b, op, reads._replace(values=reads.values * steps), heads, steps, logits, stores[-1])
        made.append(stores)


def _whole_reads(b: Builder, op: Operator, tokens: int, heads: Heads, gate: int) -> Iterator[Reads]:
    for _ in range(heads.kv_heads):
        query = b.load(op, heads.key_bytes, gate)
        keys, values = b.load(op, tokens * heads.key_bytes), b.load(op, tokens * heads.value_bytes)
        yield Reads(tokens, query, keys, (values,))
        for _ in range(heads.shared - 1):
            yield Reads(tokens, b.load(op, heads.key_bytes), keys, (values,))
