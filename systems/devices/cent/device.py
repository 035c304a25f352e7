"""A CENT system as a device that takes steps of batches."""

from collections.abc import Sequence
from copy import copy
from functools import lru_cache

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import J_PER_PJ, PS_PER_MS
from pimloom.systems.devices.cent.costs import TokenCost, mixed
from pimloom.systems.devices.cent.placed import check_fits, placed
from pimloom.systems.devices.device import Capacity, Share
from pimloom.systems.devices.run import Run, Span
from pimloom.workload.batch import Batch, Request
from pimloom.workload.need import kv_bytes_per_token
from pimloom.workload.op import Op

EVERY = 128  # contexts between two tokens that are simulated, in `CentDevice.between`
PIM, LINK, NEAR, HOST = "PIM", "link", "near-memory unit", "host"


class CentDevice:
    """See `Device`. Tokens of a request, also those of its prompt, go through all stages one after another, and those
    of other requests follow in the stages behind: a step takes as long as the slowest request, or as all of them take
    of one stage, if that is longer. Its spans are those of the slowest request, layer
    by layer if that has one token."""

    most_requests: int | None = None
    in_order = False
    exact_steps = 64

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        if share.layers != llm.num_hidden_layers:
            raise UserError(f"--layers {share.layers}: {system.name} holds whole models; leave it out")
        tensor = share.tp if share.tp > 1 else None
        self._placed = placed(system, llm, None, tensor, share.fidelity == "released")
        self._llm = llm
        self._outside = bool(share.outside)
        self._token = lru_cache(maxsize=4096)(self._cost)

    def between(self) -> "CentDevice":
        """The same, of which one token in EVERY is simulated and the others lie on lines between them."""
        coarse, exact = copy(self), lru_cache(maxsize=None)(self._cost)

        def read(context: int) -> TokenCost:
            low = max(context // EVERY * EVERY, 1)
            if context == low:
                return exact(low)
            high = min(low // EVERY * EVERY + EVERY, self._llm.max_position_embeddings)
            return mixed(exact(low), exact(max(high, context)), (context - low) / (max(high, context) - low))

        coarse._token = lru_cache(maxsize=None)(read)
        return coarse

    def _cost(self, context: int) -> TokenCost:
        cost = self._placed.token(context)
        return cost if self._outside else cost.of_layers

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """All of a model that it takes."""
        return None

    def step(self, batch: Batch) -> Run:
        """Raises UserError if the batch does not fit."""
        self.check(batch)
        each = [[self._token(context) for context in _contexts(request)] for request in batch.requests]
        slowest = max(each, key=_ms)
        costs = [cost for tokens in each for cost in tokens]
        spans = token_spans(slowest)
        end = max(spans[-1].end_ps, _ps(sum(map(self._placed.beat_ms, costs))))
        causes = dict.fromkeys(costs[0].energy_pj)
        works = {cause: sum(cost.energy_pj[cause] for cost in costs) for cause in causes}
        every = self._placed.with_waiting(works, sum(cost.busy_ms for cost in costs), end / PS_PER_MS)
        total = {cause: pj * J_PER_PJ for cause, pj in every.items()}
        memory = _ps(max(sum(cost.layer.pim * cost.layers for cost in tokens) for tokens in each))
        return Run(end_ps=end, spans=spans, device_j=total, least_ps={"commands": memory}, devices=1)

    def check(self, batch: Batch) -> None:
        """Raise UserError unless the batch fits."""
        check_fits(self._placed, [request.context for request in batch.requests])

    def capacity(self) -> Capacity:
        """Of all devices; tokens: of the one that is full first."""
        there, weights = self._placed.memory()
        each = kv_bytes_per_token(self._llm)
        return Capacity(there, weights, each, max(self._placed.room_bytes, 0) // each)


def _contexts(request: Request) -> range:
    """Of each of its new tokens."""
    return range(request.context - request.new + 1, request.context + 1)


def _ms(costs: Sequence[TokenCost]) -> float:
    return sum(cost.token_ms for cost in costs)


def token_spans(tokens: Sequence[TokenCost]) -> tuple[Span, ...]:
    """Tokens: their layers, each through channels, link and near-memory unit, all layers at once where there are
    several tokens; then what stands behind them."""
    found, at = list[Span](), 0.0

    def then(ms: float, name: str, resource: str) -> float:
        found.append(Span(_ps(at), _ps(at + ms), name, resource))
        return at + ms

    for cost in tokens:
        many = cost.layers if len(tokens) > 1 else 1
        for layer in range(cost.layers // many):
            of = f"layer {layer}: " if many == 1 else ""
            at = then(cost.layer.pim * many, f"{of}channels", PIM)
            at = then(cost.layer.link * many, f"{of}link", LINK)
            at = then(cost.layer.near_memory * many, f"{of}near-memory unit", NEAR)
        if cost.ends_ms:
            at = then(cost.ends_ms, "embedding, LM head", PIM)
            at = then(cost.host_ms, "sampling", HOST)
    return tuple(found)


def _ps(ms: float) -> int:
    return round(ms * PS_PER_MS)


device = CentDevice
