"""Duplex devices as a device that takes steps of batches."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from random import Random
from typing import NamedTuple

from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import J_PER_PJ, PS_PER_S
from pimloom.cycle_sim.link import Sent
from pimloom.systems.devices.device import Capacity, Share
from pimloom.systems.devices.duplex.built import built
from pimloom.systems.devices.duplex.handover import copied, sent
from pimloom.systems.devices.duplex.links import QUIET
from pimloom.systems.devices.duplex.memory import BANK, BANK_GROUP, LOGIC
from pimloom.systems.devices.duplex.stage import Piece, Stages, StageSum
from pimloom.systems.devices.run import Run, Span, check_numbers
from pimloom.workload.batch import Batch, Phase
from pimloom.workload.op import Op
from pimloom.workload.routing import dealt, drawn

NAMES = {LOGIC: "Logic-PIM", BANK_GROUP: "BankGroup-PIM", BANK: "Bank-PIM"}
PROMPTS: tuple[Phase, ...] = ("prefill", "train")
OTHERS: tuple[Phase, ...] = ("decode", "verify")


class Lane(NamedTuple):
    """Pieces that follow one another on some of the devices; pool: its name where there are several."""

    stages: Stages
    pieces: Sequence[Piece]
    pool: str = ""


class DuplexDevice:
    """See `Device`. A step is a stage of the paper: decode alone, or prompts beside it. Tensor parallelism over more
    than one device stands in place of the devices of a node in the system's file."""

    most_requests: int | None = None
    in_order = False
    exact_steps = 512

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        self._llm, self._share, self._built = llm, share, built(system, llm, share)
        self._tokens = lru_cache(maxsize=1024)(self._draw)

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """All of a model that it takes."""
        return None

    def step(self, batch: Batch) -> Run:
        """Raises UserError if the batch does not fit."""
        self.check(batch)
        lanes = self._lanes(batch)
        sums = [self._built.stages.summed(lane.pieces) for lane in lanes]
        longest = max(total.time_s for total in sums)
        joules = self._joules(lanes, sums, longest)
        check_numbers(self._built.stages.system.name, longest, sum(joules.values()))
        spans = [span for lane in lanes for span in _spans(lane)]
        end = max(span.end_ps for span in spans)
        least = [_least(lane.pieces) for lane in lanes]
        tp = self._share.tp
        return Run(
            end_ps=end,
            spans=tuple(sorted(spans)),
            link_bytes=sum(piece.sent.all_bytes for lane in lanes for piece in lane.pieces),
            macs=round(sum(total.macs for total in sums) / self._built.devices),
            least_ps={name: max(one[name] for one in least) for name in least[0]},
            device_j={cause: j / tp for cause, j in joules.items()},
            devices=tp,
        )

    def check(self, batch: Batch) -> None:
        """Raise UserError unless the batch fits, on two pools what each has of it."""
        for part in (batch.of(*PROMPTS), batch.of(*OTHERS)) if self._built.split else (batch,):
            self._built.room.check(part)

    def capacity(self) -> Capacity:
        """Of one of `tp` devices, or of all of the system's file."""
        room, pools, tp = self._built.room, 1 + self._built.split, self._share.tp
        memory, weights = pools * room.memory_bytes, pools * room.weight_bytes
        share = tp * room.stages.nodes if tp > 1 else 1
        return Capacity(memory // share, -(-weights // share), Fraction(room.kv_bytes, share), room.tokens)

    def _lanes(self, batch: Batch) -> list[Lane]:
        prompts, others = batch.of(*PROMPTS), batch.of(*OTHERS)
        stages, layers = self._built.stages, self._share.layers
        if not self._built.split:
            return [Lane(stages, [*self._pieces(batch), *self._behind(prompts)])]
        lanes = list[Lane]()
        if prompts.requests:
            made = [*self._pieces(prompts), *sent(stages, prompts, layers)]
            lanes.append(Lane(stages, made, "prefill devices: "))
        if others.requests:
            lanes.append(Lane(stages, list(self._pieces(others)), "decode devices: "))
        return lanes

    def _pieces(self, batch: Batch) -> Iterator[Piece]:
        tokens = self._tokens(batch.rows)
        return self._built.stages.pieces(batch, tokens, self._share.layers, outside=self._built.room.ends)

    def _behind(self, prompts: Batch) -> Iterator[Piece]:
        """Keys and values of prompts that end to where decode attends to them."""
        stages, layers = self._built.stages, self._share.layers
        if stages.system.apart:
            return sent(stages, prompts, layers)
        return copied(stages, prompts, layers) if self._built.room.has_spaces else iter(())

    def _draw(self, rows: int) -> list[tuple[int, ...]]:
        """Tokens of each expert, by layer that has experts; the same for steps of as many tokens."""
        llm, asked = self._llm, self._built.asked
        sparse = sum(not llm.is_dense(layer) for layer in range(self._share.layers))
        of = rows, llm.num_experts_per_tok, llm.num_experts
        if not asked.drawn:
            return [dealt(*of, asked)] * sparse
        random = Random(f"{asked.seed} {rows}")
        return [drawn(*of, random, asked) for _ in range(sparse)]

    def _joules(self, lanes: Sequence[Lane], sums: Sequence[StageSum], seconds: float) -> dict[str, float]:
        found = dict[str, float]()
        for one in sums:
            for cause, pj in one.pj.items():
                found[cause] = found.get(cause, 0.0) + pj * J_PER_PJ
        spec = self._built.stages.processors.device.spec
        energy = spec.energy
        moved = [piece.sent for lane in lanes for piece in lane.pieces]
        found["links"] = reduce(Sent.plus, moved, QUIET).pj(spec.links.fabric()) * J_PER_PJ
        if energy.static_w:
            found["static"] = energy.static_w * self._built.devices * seconds
        return found


def _spans(lane: Lane) -> Iterator[Span]:
    """Both processors and the links; one that is hindered by the other takes longer than by itself."""
    at, low = 0.0, NAMES.get(lane.stages.system.low or "", "")
    beside = lane.stages.experts.beside
    for piece in lane.pieces:
        name, work, sent_s = piece.name, piece.work, piece.sent_s
        xpu, other, behind = work.xpu.time_s, work.low.time_s, at
        if work.at_once and xpu and other:
            xpu, other = min(xpu / beside.xpu, work.time_s), min(other / beside.low, work.time_s)
        else:
            behind = at + xpu
        sides = ((at, xpu, "xPU"), (behind, other, low), (at + work.time_s, sent_s, "links"))
        yield from (Span(_ps(start), _ps(start + s), name, lane.pool + where) for start, s, where in sides if s)
        at += piece.time_s


def _least(pieces: Sequence[Piece]) -> dict[str, int]:
    return {
        "compute": _ps(sum(piece.work.compute_s for piece in pieces)),
        "memory bandwidth": _ps(sum(piece.work.memory_s for piece in pieces)),
        "link": _ps(sum(piece.sent_s for piece in pieces)),
    }


def _ps(seconds: float) -> int:
    return round(seconds * PS_PER_S)


device = DuplexDevice
