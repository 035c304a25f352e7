"""The narrow waist: what a system answers, whatever it is made of."""

from collections.abc import Collection, Sequence
from fractions import Fraction
from importlib import import_module
from typing import NamedTuple, Protocol

from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.systems.devices.formats import refuse, refuse_quantized
from pimloom.systems.devices.routing import check_routing
from pimloom.systems.devices.run import Run
from pimloom.workload.batch import Batch
from pimloom.workload.decoding.density import Density
from pimloom.workload.decoding.formats import WeightFormat
from pimloom.workload.op import Op


class Capacity(NamedTuple):
    """Memory of one device, and what the model takes of it [bytes]. tokens: of all requests together, whose keys and
    values fit beside the weights."""

    memory_bytes: int
    weight_bytes: int
    cache_bytes_per_token: int | Fraction
    tokens: int


class Share(NamedTuple):
    """How much of a model a device has: `layers` of them, cut for tensor parallelism over `tp` devices; fidelity:
    `released` for a device that reproduces its own simulator, else `physical`; tokens: the longest context that a
    device must be laid out for, None: as many as fit; outside: whether what stands before and behind the layers is in a
    step (embedding, LM head, sampling); None: not, but PIM-GPT by its file; weights: of the layers' matrices, None:
    as wide as all else; density: of attention, None: full."""

    tp: int
    layers: int
    fidelity: str = "physical"
    tokens: int | None = None
    outside: bool | None = None
    weights: WeightFormat | None = None
    density: Density | None = None


class Device(Protocol):
    """A system with a model on it. All that a new one implements."""

    most_requests: int | None  # at once; None: as many as fit
    in_order: bool  # whether a step depends on when it comes: a refresh that falls due in one may run in the next
    exact_steps: int  # different ones that `serve` simulates one by one before it interpolates [design]: some seconds
    # outline(decode, prompts, logits) -> Outline: the work of a step, if prices can be fitted to it
    # channels: int, where all keys and values of a request lie in one of so many; `step` takes them behind the batch,
    # and `kv_pages(tokens)` tells of the rows there

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """Why these operators cannot run, in one sentence; None if they can."""
        ...

    def step(self, batch: Batch) -> Run:
        """One step of a batch, all layers. Steps of a device follow one another in time. Raises UserError."""
        ...

    def check(self, batch: Batch) -> None:
        """Raise UserError unless the keys and values of these requests fit beside the weights, side by side; whether
        a step of them can run is not asked."""
        ...

    def capacity(self) -> Capacity:
        """Its memory."""
        ...


def without(ops: Sequence[Op], kinds: Collection[str], why: str) -> str | None:
    """A sentence for the first operator of one of these kinds; None if there is none such."""
    named = (f"{op.name} ({op.kind}): {why}" for op in ops if op.kind in kinds)
    return next(named, None)


MODULES = {  # kind of a system: the module whose `device(system, llm, share)` makes it; only what is used is imported
    "pim": "pimloom.systems.devices.pim_gpt",
    "npu_pim": "pimloom.systems.devices.npu_pim.device",
    "roofline": "pimloom.systems.devices.roofline",
    "composed": "pimloom.systems.devices.composed.device",
    "cent": "pimloom.systems.devices.cent.device",
    "attacc": "pimloom.systems.devices.attacc.device",
    "duplex": "pimloom.systems.devices.duplex.device",
}


def device_of(system: System, llm: LlmSpec, share: Share) -> Device:
    """The device of a system, with a model on it. Raises UserError if it cannot run it."""
    refuse(system, weights=share.weights is not None, density=share.density is not None)
    check_routing(system, llm)
    refuse_quantized(system, llm)
    made: Device = import_module(MODULES[system.spec.kind]).device(system, llm, share)
    return made
