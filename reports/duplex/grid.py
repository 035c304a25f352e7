"""The grid of decode steps in which the systems of the Duplex study are compared."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from statistics import median
from typing import Literal, NamedTuple

from pimloom.arch.duplex import Duplex
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.routing import UNIFORM, Routing
from pimloom.arch.units import J_PER_MJ, J_PER_PJ, S_PER_MS, S_PER_US
from pimloom.systems.devices.duplex.beside import APART, measured
from pimloom.systems.devices.duplex.layers import Processors
from pimloom.systems.devices.duplex.memory import IdealDram, SimulatedDram
from pimloom.systems.devices.duplex.room import NODE
from pimloom.systems.devices.duplex.stage import Stages, StageSum
from pimloom.systems.devices.duplex.variants import VARIANTS, Variant
from pimloom.workload.routing import drawn

NODES: Mapping[str, tuple[int, int]] = {  # nodes x devices of each [paper]
    "mixtral-8x7b": (1, 4),
    "glam-143b": (1, 8),
    "grok-1": (2, 8),
    "opt-66b": (1, 4),
    "llama-3-70b": (1, 4),
}
WARM_UP = 10_000  # steps before the first that counts [secondary S]
STEPS = 39  # [derived R]


class GridPoint(NamedTuple):
    """A model with a batch; prompts and answers of `length` tokens each."""

    model: str
    batch: int
    length: int

    @property
    def first_context(self) -> int:
        """Of all requests, which run in lockstep: what S has reached after its warm-up."""
        return self.length + WARM_UP % self.length - 1


GRID = (  # [derived R]
    *(GridPoint("mixtral-8x7b", batch, length) for batch in (32, 64) for length in (256, 1024, 4096)),
    *(GridPoint("glam-143b", batch, length) for batch in (32, 128) for length in (512, 2048)),
    GridPoint("grok-1", 32, 1024),
)


class GridRow(NamedTuple):
    """A system at a point. step_ms: the median; parts_us: the median of each part; mj: energy of a token by cause."""

    point: GridPoint
    system: str
    devices: int
    tokens_per_s: float
    mj_per_token: float
    step_ms: float
    parts_us: Mapping[str, float]
    mj: Mapping[str, float]


def deployed(model: str, times: int = 1) -> tuple[int, int]:
    """Nodes and the devices of each; `times` as many fill a node first. Raises UserError for a model without one.

    >>> deployed("mixtral-8x7b", 2), deployed("glam-143b", 2)
    ((1, 8), (2, 8))
    """
    if model not in NODES:
        raise UserError(f"model {model}: its devices are not known; known are {', '.join(NODES)}")
    nodes, devices = NODES[model]
    more = min(NODE // devices, times)
    return nodes * (times // more), devices * more


def decode_grid(
    device: Duplex,
    points: Sequence[GridPoint] = GRID,
    *,
    steps: int = STEPS,
    memory: Literal["ideal", "simulated"] = "simulated",
    routing: Routing = UNIFORM,
    seed: int = 0,
    router: str = "idlest_to_pim",
    contention: bool = True,
    systems: Sequence[Variant] = VARIANTS,
) -> Iterator[GridRow]:
    """Rows point by point; all systems see the same draws of experts. contention: both processors of a device meet on
    its command buses, as in `beside`. Raises UserError."""
    both = measured(device.part) if contention else APART
    processors = Processors(device, IdealDram(device) if memory == "ideal" else SimulatedDram(device))
    for point in points:
        llm = load_llm(point.model)
        draws = draw_steps(llm, point.batch, steps, seed, routing)
        for system in systems:
            nodes, devices = deployed(point.model, system.times)
            stages = Stages(llm, system, processors, nodes, devices, router, both)
            found = [stages.decode([point.first_context + i] * point.batch, tokens) for i, tokens in enumerate(draws)]
            yield _row(point, system, nodes * devices, found)


def draw_steps(
    llm: LlmSpec, batch: int, steps: int, seed: int, routing: Routing = UNIFORM
) -> list[list[tuple[int, ...]]]:
    """Tokens of each expert, by step and layer that has experts."""
    random = Random(seed)
    sparse = sum(not llm.is_dense(i) for i in range(llm.num_hidden_layers))
    each, experts = llm.num_experts_per_tok, llm.num_experts
    return [[drawn(batch, each, experts, random, routing) for _ in range(sparse)] for _ in range(steps)]


def _row(point: GridPoint, system: Variant, devices: int, steps: Sequence[StageSum]) -> GridRow:
    tokens, seconds = point.batch * len(steps), sum(step.time_s for step in steps)
    middle = {part: median(step.parts_s[part] for step in steps) / S_PER_US for part in steps[0].parts_s}
    mj = {
        cause: sum(step.pj[cause] for step in steps) * J_PER_PJ / J_PER_MJ / tokens
        for cause in dict.fromkeys(cause for step in steps for cause in step.pj)
    }
    step_ms = median(step.time_s for step in steps) / S_PER_MS
    return GridRow(point, system.name, devices, tokens / seconds, sum(mj.values()), step_ms, middle, mj)
