"""The work of the stages of an iteration, counted without simulation. Prices are fitted to it.

NeuPIMs' algorithms 2 and 3 place requests in channels and sub-batches; contexts stand in for estimated clocks.
A stage has work of the arrays and of PIM; with sub-batches both work at the same time.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import heapreplace
from math import fsum

from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.systems.devices.npu_pim.share import Layers
from pimloom.systems.devices.outline import Outline, Part
from pimloom.workload.routing import busy_chances

NOTHING = (0.0, 0.0)
Placed = tuple[int, Part]  # channel, request


class Outliner:
    """Outlines of the iterations of a model on an NPU. layers: their number, or which."""

    def __init__(self, hardware: NpuPimSystem, llm: LlmSpec, layers: Layers) -> None:
        self.hardware, self.llm, self.tile = hardware, llm, hardware.npu.rows
        self.alone = hardware.dram.row_buffers == "none"
        numbers = layers if isinstance(layers, range) else range(layers)
        self.windows = Counter(llm.window_of(layer) for layer in numbers)
        self.sparse = any(not llm.is_dense(layer) for layer in numbers)
        self.met = dict[int, float]()

    def of(self, decode: Sequence[Part], prompts: Sequence[Part], logits: int) -> Outline:
        """The work of an iteration. logits: rows of the LM head."""
        n = self.hardware.interleave.sub_batches
        n = 1 if not decode or len(decode) + len(prompts) < n else n
        parts = self._divided(decode, n)
        rows = [sum(one.new for _, one in part) for part in parts]
        chunks: list[list[Part]] = [[] for _ in range(n)]
        for one in sorted(prompts, key=_context, reverse=True):
            least = rows.index(min(rows))
            rows[least] += one.new
            chunks[least].append(one)
        arrays, pim = list[list[float]](), list[list[float]]()
        for window, times in self.windows.items():
            for i in range(n):
                then = (i + 1) % n
                on_arrays = self._on_arrays(rows[i], chunks[then], parts[then], window)
                on_pim = NOTHING if self.alone else _busiest(parts[then], window)
                arrays.append([times * x for x in on_arrays])
                pim.append([times * x for x in on_pim])
        outside = 1, logits > 0, -(-logits // self.tile)
        return Outline(n > 1, arrays, pim, outside, (sum(rows), sum(one.context for one in decode), logits))

    def _on_arrays(
        self, rows: int, prompts: Sequence[Part], decode: Sequence[Placed], window: int | None
    ) -> list[float]:
        """Work of the arrays: 1 for weights, tiles, rows, attention of prompts, of decode without PIM; expert tiles."""
        attend = sum(self._attended(one, window) for one in prompts)
        alone = sum(min(one.context, window or one.context) for _, one in decode) if self.alone else 0
        return [1, -(-rows // self.tile), rows, attend, alone, self._experts(rows) if self.sparse else 0]

    def _divided(self, decode: Sequence[Part], n: int) -> list[list[Placed]]:
        """The requests of n sub-batches: the longest first, each where its channel has the fewest tokens."""
        found: list[list[Placed]] = [[] for _ in range(n)]
        loads = [(0, channel) for channel in range(self.hardware.dram.channels)]
        there = dict[int, list[int]]()
        for rank, one in enumerate(sorted(decode, key=_context, reverse=True)):
            channel = one.channel
            if channel is None:
                load, channel = loads[0]
                heapreplace(loads, (load + one.context, channel))
            mine = there.setdefault(channel, [0] * n)
            least = min(range(n), key=lambda i: (mine[i], (i - rank) % n))
            mine[least] += one.context
            found[least].append((channel, one))
        return found

    def _attended(self, one: Part, window: int | None) -> float:
        """Pairs of rows and tokens in the attention of a prompt, rows rounded up to tiles."""
        wide = one.context - one.new + min(one.new, self.tile * -(-one.new // self.tile)) / 2
        return self.tile * -(-one.new // self.tile) * min(wide, window or wide)

    def _experts(self, rows: int) -> float:
        """Mean number of tiles of the experts that this number of rows uses."""
        if (found := self.met.get(rows)) is None:
            each, llm = self.llm.num_experts_per_tok, self.llm
            busy = fsum(busy_chances(rows, each, llm.num_experts, self.hardware.routing)) if rows else 0.0
            found = self.met[rows] = max(busy, rows * each / self.tile)
        return found


def _context(one: Part) -> int:
    return one.context


def _busiest(part: Sequence[Placed], window: int | None) -> tuple[float, float]:
    """GEMVs and their tokens in the channel with the most tokens."""
    tokens, gemvs = Counter[int](), Counter[int]()
    for channel, one in part:
        gemvs[channel] += one.new
        tokens[channel] += one.new * min(one.context, window or one.context)
    if not tokens:
        return NOTHING
    most = max(tokens, key=tokens.__getitem__)
    return gemvs[most], tokens[most]
