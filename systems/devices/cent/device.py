"""A CENT system as a device that takes steps of batches."""

from collections.abc import Sequence
from functools import lru_cache

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import J_PER_PJ, PS_PER_MS
from pimloom.systems.devices.cent.placed import TokenCost, check_fits, placed
from pimloom.systems.devices.device import Capacity, Share
from pimloom.systems.devices.run import Run, Span
from pimloom.workload.batch import Batch
from pimloom.workload.need import kv_bytes_per_token
from pimloom.workload.op import Op

PIM, LINK, NEAR, HOST = "PIM", "link", "near-memory unit", "host"


class CentDevice:
    """See `Device`. A step is a token of each request. Requests follow one another through the stages: a step takes as
    long as the slowest token, or as all requests take of one stage, if that is longer."""

    most_requests: int | None = None
    in_order = False

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        if share.outside is False:
            raise UserError(f"{system.name}: its tokens hold embedding and LM head; leave --no-lm-head out")
        if share.layers != llm.num_hidden_layers:
            raise UserError(f"--layers {share.layers}: {system.name} holds whole models; leave it out")
        tensor = share.tp if share.tp > 1 else None
        self._placed = placed(system, llm, None, tensor, share.fidelity == "released")
        self._llm = llm
        self._token = lru_cache(maxsize=4096)(self._placed.token)

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """All of a model that it takes."""
        return None

    def step(self, batch: Batch) -> Run:
        """Raises UserError for prompts, and if the batch does not fit."""
        if any(request.new > 1 for request in batch.requests):
            raise UserError("prompts run token by token on CENT: `pimloom run cent --context N` has them; take decode")
        self.check(batch)
        costs = [self._token(request.context) for request in batch.requests]
        slowest = max(costs, key=lambda cost: cost.token_ms)
        in_a_stage = sum(cost.token_ms for cost in costs) / self._placed.stages
        spans = _spans(slowest)
        end = max(spans[-1].end_ps, round(in_a_stage * PS_PER_MS))
        causes = dict.fromkeys(costs[0].energy_pj)
        total = {cause: sum(cost.energy_pj[cause] for cost in costs) * J_PER_PJ for cause in causes}
        memory = round(max(cost.layer.pim * cost.layers for cost in costs) * PS_PER_MS)
        return Run(end_ps=end, spans=spans, device_j=total, least_ps={"commands": memory}, devices=1)

    def check(self, batch: Batch) -> None:
        """Raise UserError unless the batch fits."""
        check_fits(self._placed, [request.context for request in batch.requests])

    def capacity(self) -> Capacity:
        """Of all devices."""
        there, weights = self._placed.memory()
        each = kv_bytes_per_token(self._llm)
        return Capacity(there, weights, each, (there - weights) // each)


def _spans(cost: TokenCost) -> tuple[Span, ...]:
    """A token: its layers, each through channels, link and near-memory unit; then what stands behind them."""
    found, at = list[Span](), 0.0
    for layer in range(cost.layers):
        for name, ms, resource in (
            ("channels", cost.layer.pim, PIM), ("link", cost.layer.link, LINK),
            ("near-memory unit", cost.layer.near_memory, NEAR),
        ):  # fmt: skip
            found.append(Span(_ps(at), _ps(at + ms), f"layer {layer}: {name}", resource))
            at += ms
    found.append(Span(_ps(at), _ps(at + cost.ends_ms), "embedding, LM head", PIM))
    at += cost.ends_ms
    found.append(Span(_ps(at), _ps(at + cost.host_ms), "sampling", HOST))
    return tuple(found)


def _ps(ms: float) -> int:
    return round(ms * PS_PER_MS)


device = CentDevice
