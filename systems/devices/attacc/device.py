"""An AttAcc system as a device that takes steps of batches."""

from collections.abc import Sequence
from fractions import Fraction

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import PS_PER_S
from pimloom.systems.devices.attacc.box import Box
from pimloom.systems.devices.attacc.boxed import boxed
from pimloom.systems.devices.attacc.order import ORDER
from pimloom.systems.devices.attacc.step import Step
from pimloom.systems.devices.device import Capacity, Share
from pimloom.systems.devices.run import Run, Span, check_numbers
from pimloom.workload.batch import Batch
from pimloom.workload.op import Op

STACKS, LINKS, GPUS, HOST = "stacks", "links", "GPUs", "host"
ATTENTION = ("score", "softmax", "context")


class AttAccDevice:
    """See `Device`. A step is of prompts, or pieces of them, or of a token each. Tensor parallelism over more than one
    device stands in place of the GPUs in the system's file; with one, the box is the device."""

    most_requests: int | None = None
    in_order = False
    exact_steps = 512

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        if share.outside:
            raise UserError(f"{system.name}: has no embedding, LM head and sampling; leave --lm-head out")
        if share.layers != llm.num_hidden_layers:
            raise UserError(f"--layers {share.layers}: {system.name} holds whole models; leave it out")
        self._name, self._tp = system.name, share.tp
        self._found = boxed(system, llm, share.fidelity == "released", share.tp)

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """All of a model that it takes."""
        return None

    def step(self, batch: Batch) -> Run:
        """Raises UserError for prompts beside decode, and if the batch does not fit."""
        self.check(batch)
        found, requests = self._found, batch.requests
        phases = {request.phase for request in requests}
        if "verify" in phases:
            raise UserError(f"{self._name}: drafts to verify, and a step is of prompts or of a token each")
        if len(phases) > 1:
            raise UserError(
                "an AttAcc system runs prompts and decode in separate steps; take --scheduler vllm-v0 without --chunked"
            )
        if phases == {"decode"}:
            step = found.decode([request.context for request in requests])
            return run_of(step, attends=attending(found.box), devices=self._tp)
        prompts = [(request.new, request.context - request.new) for request in requests]
        return run_of(found.prefill(prompts), devices=self._tp)

    def check(self, batch: Batch) -> None:
        """Raise UserError unless the batch fits."""
        self._found.check(sum(request.context for request in batch.requests))

    def capacity(self) -> Capacity:
        """Of one of `tp` devices, else of the box: weights on the GPUs; keys and values on the stacks, else in the
        memory of the host, else on the GPUs, too."""
        found, tp = self._found, self._tp
        tokens = found.room_bytes // found.kv_bytes
        return Capacity(found.memory_bytes // tp, -(-found.weight_bytes // tp), Fraction(found.kv_bytes, tp), tokens)


def attending(box: Box) -> str:
    """What does attention in decode steps."""
    return STACKS if box.stacks else HOST if box.host else GPUS


def run_of(step: Step, *, attends: str = GPUS, devices: int = 1) -> Run:
    """A step as spans, in the order of a layer; attends: what does attention; devices: that the box counts as."""
    check_numbers("AttAcc", sum(step.seconds.values()), sum(step.causes.values()))
    spans, at = list[Span](), 0
    for name, seconds in sorted(step.seconds.items(), key=lambda part: ORDER.index(part[0])):
        end = at + round(seconds * PS_PER_S)
        where = LINKS if name.startswith(("all-reduce", "transfer")) else GPUS
        spans.append(Span(at, end, name, attends if name in ATTENTION else where))
        if name in step.beside:
            spans.append(Span(at, at + round(step.beside[name] * PS_PER_S), name, STACKS))
        at = end
    return Run(
        end_ps=at,
        spans=tuple(spans),
        link_bytes=round(step.counts["sent_bytes"]),
        macs=round(step.counts["macs"] / devices),
        least_ps={limit: round(seconds * PS_PER_S) for limit, seconds in step.least.items()},
        device_j={cause: j / devices for cause, j in step.causes.items()},
        devices=devices,
    )


device = AttAccDevice
