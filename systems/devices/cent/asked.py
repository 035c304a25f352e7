"""What `pimloom run` asks of a CENT system, and the answer."""

import time
from collections.abc import Iterable, Sequence
from math import fsum, isfinite

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import System, load_system, spec_digest
from pimloom.arch.units import J_PER_PJ, NS_PER_MS, S_PER_MS, W_PER_MW
from pimloom.arch.version import __version__
from pimloom.systems.asked import Asked, Progress, Work
from pimloom.systems.devices.boundary import energy_by_cell
from pimloom.systems.devices.cent.costs import TokenCost
from pimloom.systems.devices.cent.device import token_spans
from pimloom.systems.devices.cent.outcome import CentOutcome, CentPoint, shares
from pimloom.systems.devices.cent.placed import Placed, check_fits, placed
from pimloom.systems.devices.run import Run
from pimloom.systems.devices.shown import Shown
from pimloom.systems.settings import parse_settings

EVERY = 128  # contexts between two that are simulated [secondary CENT]
PROMPT, GENERATED = 512, 3584  # [secondary CENT] of its end-to-end figures


def cent_work(asked: Asked) -> Work[CentOutcome]:
    """A request of some context on a CENT system. Raises UserError."""
    settings = parse_settings(asked.settings or ())
    if asked.devices is not None:
        if "devices" in settings:
            raise UserError(f"--devices {asked.devices}: --set devices says so, too; leave one of the two out")
        settings["devices"] = str(asked.devices)
    return request_work(load_system(asked.system, settings, "run"), load_llm(asked.model), asked)


def request_work(system: System, llm: LlmSpec, asked: Asked) -> Work[CentOutcome]:
    """The same of a system and a model that are read already."""
    context, every = _context(asked), asked.every or EVERY
    _check_positions(asked, llm, context)
    fidelity = asked.fidelity or "physical"
    if fidelity not in ("physical", "released"):
        raise UserError(f"--fidelity {fidelity}: expected physical or released")
    found = placed(system, llm, asked.pp, asked.tp, fidelity == "released")
    check_fits(found, [context] * found.stages)
    contexts = simulated_contexts(context, every, found.released)
    whole = found.released if asked.lm_head is None else asked.lm_head  # its own code has them
    differs = {"outside": whole} if whole is not found.released else {}
    parts = {"pp": found.stages, "tp": found.tensor, "fidelity": fidelity, "every": every}
    digest = spec_digest(system, llm, contexts=contexts, **parts, **differs)

    def run(progress: Progress) -> CentOutcome:
        start, costs = time.perf_counter(), list[TokenCost]()
        for n, tokens in enumerate(contexts):
            token = found.token(tokens)
            costs.append(_with_waiting(found, token if whole else token.of_layers))
            progress(n + 1, len(contexts))
        figures = (cost.token_ms + cost.power_mw + sum(cost.energy_pj.values()) for cost in costs)
        if not isfinite(sum(figures)):
            said = "time or energy of a token is not finite; raise rates and clocks"
            raise UserError(f"{system.name}: {said}")
        outcome = _outcome(system, llm, found, contexts, costs, every, whole, digest, time.perf_counter() - start)
        spans = token_spans([costs[len(costs) // 2]])
        outcome.showing(lambda: Shown(system.name, None, Run(end_ps=spans[-1].end_ps, spans=spans)))
        return outcome

    return Work(f"contexts of {llm.name} on {system.name}", run, lambda: llm.notes)


def simulated_contexts(context: int, every: int, released: bool) -> list[int]:
    """Contexts that are simulated: one in `every`, the last, and the first; as released not the first."""
    contexts = {context, *range(every, context + 1, every)}
    return sorted(contexts if released else contexts | {1})


def _check_positions(asked: Asked, llm: LlmSpec, context: int) -> None:
    """Raise UserError, with what instead, for a context beyond the model's positions."""
    there, prompt = llm.max_position_embeddings, PROMPT if asked.prompt is None else asked.prompt
    if context <= there:
        return
    instead = f"--context {there}"
    if asked.context is None and asked.generate is None and prompt < there:
        instead = f"--generate {there - prompt}"
    elif asked.context is None and asked.generate is not None and asked.generate < there:
        instead = f"--prompt {there - asked.generate}"
    said = f"a context of {context:,} tokens, the model has {there:,} positions; take {instead} or less"
    raise UserError(f"{llm.name}: {said}")


def _context(asked: Asked) -> int:
    """Tokens of the request, prompt and answer."""
    if asked.context is not None and (asked.prompt is not None or asked.generate is not None):
        raise UserError(f"--context {asked.context}: is --prompt and --generate together; leave one of the two out")
    prompt = PROMPT if asked.prompt is None else asked.prompt
    generated = GENERATED if asked.generate is None else asked.generate
    if prompt < 0:
        raise UserError(f"--prompt {prompt}: expected at least 0 tokens")
    if generated < 1:
        raise UserError(f"--generate {generated}: expected at least 1 token")
    context = prompt + generated if asked.context is None else asked.context
    if context < 1:
        raise UserError(f"--context {context}: expected at least 1 token")
    return context


def _outcome(
    system: System,
    llm: LlmSpec,
    found: Placed,
    contexts: Sequence[int],
    costs: Sequence[TokenCost],
    every: int,
    whole: bool,
    digest: str,
    wall_s: float,
) -> CentOutcome:
    points = [_point(found, context, cost) for context, cost in zip(contexts, costs, strict=True)]
    counted = shares(contexts, found.released)

    def mean(values: Iterable[float]) -> float:
        return fsum(share * value for share, value in zip(counted, values, strict=True))

    by_cause = {cause: mean(cost.energy_pj[cause] * J_PER_PJ for cost in costs) for cause in costs[0].energy_pj}
    return CentOutcome(
        system=system.name,
        model=llm.name,
        fidelity="released" if found.released else "physical",
        devices=found.system.devices,
        used_devices=found.used_devices,
        stages=found.stages,
        tensor=found.tensor,
        layers_per_device=found.layers_here,
        channels_per_layer=found.place.block_channels,
        context=contexts[-1],
        every=every,
        lm_head=whole,
        latency_s=mean(point.token_s for point in points) * contexts[-1],
        tokens_per_s=mean(point.tokens_per_s for point in points),
        energy_per_token_j=mean(point.energy_j for point in points),
        energy_by_cause_j=by_cause,
        energy_by_cell=energy_by_cell(system, by_cause, found.tensor),
        power_w=mean(point.power_w for point in points),
        ends_s=costs[0].ends_ms * S_PER_MS,
        host_s=costs[0].host_ms * S_PER_MS,
        points=points,
        spec_digest=digest,
        version=__version__,
        wall_s=wall_s,
    )


def _with_waiting(found: Placed, cost: TokenCost) -> TokenCost:
    """The same, with what devices draw while they wait in full stages, and the power of all of that; as released
    nothing waits."""
    if found.released:
        return cost
    beat_ms = found.beat_ms(cost)
    pj = found.with_waiting(cost.energy_pj, cost.busy_ms, beat_ms)
    return cost._replace(energy_pj=pj, power_mw=fsum(pj.values()) / (beat_ms * NS_PER_MS))


def _point(found: Placed, context: int, cost: TokenCost) -> CentPoint:
    token_s, of_layers = cost.token_ms * S_PER_MS, cost.layers * S_PER_MS
    return CentPoint(
        context=context,
        token_s=token_s,
        pim_s=cost.layer.pim * of_layers,
        link_s=cost.layer.link * of_layers,
        near_memory_s=cost.layer.near_memory * of_layers,
        tokens_per_s=1 / (found.beat_ms(cost) * S_PER_MS),
        energy_j=fsum(cost.energy_pj.values()) * J_PER_PJ,
        power_w=cost.power_mw * W_PER_MW,
    )
