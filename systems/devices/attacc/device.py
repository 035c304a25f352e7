"""An AttAcc system as a device that takes steps of batches."""

from collections.abc import Sequence

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import PS_PER_S
from pimloom.systems.devices.attacc.boxed import boxed
from pimloom.systems.devices.attacc.prompt import prompt_step
from pimloom.systems.devices.attacc.step import Step, decode_step
from pimloom.systems.devices.device import Capacity, Share
from pimloom.systems.devices.run import Run, Span
from pimloom.workload.batch import Batch
from pimloom.workload.op import Op

STACKS, LINKS, GPUS = "stacks", "links", "GPUs"
ON_STACKS = ("score", "softmax", "context")


class AttAccDevice:
    """See `Device`. A step is one of equal requests: all prompts of one length, or a token each at one context."""

    most_requests: int | None = None
    in_order = False

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        if share.outside:
            raise UserError(f"{system.name}: has no embedding, LM head and sampling; leave --lm-head out")
        if share.tp > 1:
            raise UserError(f"--tp {share.tp}: the GPUs of {system.name} share every layer; --set gpus=N instead")
        if share.layers != llm.num_hidden_layers:
            raise UserError(f"--layers {share.layers}: {system.name} holds whole models; leave it out")
        self._name = system.name
        self._found = boxed(system, llm, share.fidelity == "released")

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """All of a model that it takes."""
        return None

    def step(self, batch: Batch) -> Run:
        """Raises UserError for requests that differ, and if the batch does not fit."""
        self.check(batch)
        kinds = {(request.new, request.context) for request in batch.requests}
        if len(kinds) > 1:
            raise UserError("requests of an AttAcc system go in steps of one length; group them by context")
        ((new, context),) = kinds
        if context > new > 1:
            what = "drafts to verify" if batch.requests[0].phase == "verify" else "a part of a prompt"
            raise UserError(f"{self._name}: {what} behind cached tokens, and a step is whole prompts or a token each")
        found, n = self._found, len(batch.requests)
        if new > 1 or batch.requests[0].phase == "prefill":
            return _run(prompt_step(found.box, found.decoder, n, new, found.slips), attends=False)
        return _run(decode_step(found.box, found.decoder, n, context, found.slips), attends=bool(found.box.stacks))

    def check(self, batch: Batch) -> None:
        """Raise UserError unless the batch fits."""
        self._found.check(sum(request.context for request in batch.requests))

    def capacity(self) -> Capacity:
        """Of the box: weights on the GPUs; keys and values on the stacks, if there are any."""
        found = self._found
        tokens = found.room_bytes // found.kv_bytes
        return Capacity(found.memory_bytes, found.weight_bytes, found.kv_bytes, tokens)


def _run(step: Step, *, attends: bool) -> Run:
    spans, at = list[Span](), 0
    for name, seconds in step.seconds.items():
        end = at + round(seconds * PS_PER_S)
        where = LINKS if name.startswith(("all-reduce", "transfer")) else GPUS
        spans.append(Span(at, end, name, STACKS if attends and name in ON_STACKS else where))
        at = end
    links = sum(span.end_ps - span.start_ps for span in spans if span.resource == LINKS)
    return Run(end_ps=at, spans=tuple(spans), device_j=dict(step.causes), least_ps={"link": links})


device = AttAccDevice
