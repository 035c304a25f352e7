"""Many decode iterations on a machine: continuous batching whose iterations are simulated."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, fsum
from typing import Any

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.name_units import counted
from pimloom.arch.system import System
from pimloom.arch.version import __version__
from pimloom.energy.cells import EnergyCell
from pimloom.systems.devices.boundary import energy_by_cell
from pimloom.systems.devices.npu_pim.served import Served
from pimloom.systems.devices.run import Run, total_j
from pimloom.systems.devices.shown import WithSpans
from pimloom.systems.devices.traits import has_outside, traits
from pimloom.systems.serving.batching import POLICIES, Floor, Rules, Step, warmed_up
from pimloom.systems.serving.beside import side_by_side
from pimloom.systems.serving.machine import Batch, Pieces, Plan, machine_of
from pimloom.systems.serving.outcome import Batched, Spread
from pimloom.systems.serving.workload import Workload
from pimloom.workload.requests.data_sets import DATA_SETS

WARM_UP_OUTPUTS = 10  # mean outputs of iterations before those that count [assumed: long enough for a steady state]


class Decoded(WithSpans, frozen=True, kw_only=True):
    """Many decode iterations; fields as in CONVENTIONS.md. lm_head: whether embedding, LM head and sampling are in
    times, energies and memory. Energies are of all `tp` devices, without the time in which no request is there; None
    where the system or its part gives none. spans: the simulated iteration in the middle; where prompts
    are computed of those with a prompt in it (`phase` prefill) and of those without (decode)."""

    of_prompts = "an iteration with a prompt"

    system: str
    model: str
    fidelity: str
    workload: dict[str, Any]
    batch: int
    tp: int
    pp: int
    deployed: str | None
    nodes: int | None
    devices: int | None
    layers: int
    model_layers: int
    lm_head: bool
    iterations: int
    simulated_iterations: int
    every: int
    interpolation_error: float | None
    chunk: int | None
    batch_mean: float
    context_mean: float
    time_s: float
    tokens_per_s: float
    token_time_s: Spread | None
    time_to_first_token_s: Spread | None
    wait_s: Spread | None
    latency_s: Spread | None
    energy_j: float | None
    energy_per_token_j: float | None
    energy_by_cause_j: dict[str, float] | None
    requests_finished: int
    preemptions: int
    iteration_batch: list[int]
    iteration_tokens: list[int]
    iteration_s: list[float]
    spec_digest: str
    version: str
    energy_by_cell: dict[str, EnergyCell] | None = None


def decode_iterations(
    system: System,
    llm: LlmSpec,
    workload: Workload,
    plan: Plan,
    progress: Callable[[int], None] = lambda done: None,
    asked: list[Any] | None = None,
) -> tuple[Batched, list[Any]]:
    """Batch the requests of `workload` and simulate; returns what happened, and each simulated iteration: of an NPU or
    a roofline a `Served`, of other devices a `Run`. asked: filled with what was in each of them.

    Requests without arrivals of their own are kept alive: after a warm-up that is not simulated, in which a request
    that ends is replaced by a random row, a steady state. Raises UserError.
    """
    machine = machine_of(system, llm, plan)
    served: list[Any] = []
    asked = [] if asked is None else asked
    most = llm.max_position_embeddings
    (_check_positions if plan.chunk else _check_prompts)(llm, workload)

    def step(*batch: Any) -> float:
        asked.append(_batch(*batch))
        served.append(machine.simulate(asked[-1]))
        return served[-1].time_s

    rules = Rules(
        batch=plan.batch,
        longest=min(most, llm.widest_window or most),
        policy=plan.policy or POLICIES[0],
        cost=machine.cost,
        kept_alive=not workload.timed,
        seed=plan.seed,
        chunk=plan.chunk,
    )

    def batched(floor: Floor, step: Step, progress: Callable[[int], None]) -> Batched:
        return floor.decode(step, plan.iterations, plan.every, progress)

    floor = warmed_up(workload, machine.room(), rules, warm_up_of(workload))
    if workload.timed or machine.in_order:
        return batched(floor, step, progress), served

    def note(*batch: Any) -> float:
        asked.append(_batch(*batch))
        return 0.0

    batched(floor.copy(), note, lambda done: None)  # who is in a batch does not depend on the time that iterations take
    served += side_by_side(machine.simulate, asked, lambda done: progress((plan.iterations or 1) * done // len(asked)))
    times = iter([found.time_s for found in served])
    return batched(floor, lambda *batch: next(times), lambda done: None), served


def _batch(*batch: Any) -> Any:
    """What a machine simulates: contexts or steps, and their channels."""
    return Batch(*batch) if isinstance(batch[0], np.ndarray) else Pieces(*batch)


def _check_positions(llm: LlmSpec, workload: Workload) -> None:
    """Raise UserError for a request that is longer than the model."""
    tokens = workload.prompt_tokens + workload.output_tokens - 1  # the last one is not put in again
    if (longest := int(tokens.max())) > llm.max_position_embeddings:
        raise UserError(
            f"{workload.name}: request {int(tokens.argmax())} needs {longest:,} positions, {llm.name} has "
            f"{llm.max_position_embeddings:,}; take shorter requests, or no --chunk: prompts are not computed then"
        )


def _check_prompts(llm: LlmSpec, workload: Workload) -> None:
    """Raise UserError for a file with a prompt that is longer than the model; of a data set, whose lengths are drawn
    from those of other models, such a one is cut."""
    most, prompts = llm.max_position_embeddings, workload.prompt_tokens
    if workload.name not in DATA_SETS and (n := int((prompts > most).sum())):
        raise UserError(
            f"{workload.name}: {counted(n, 'prompt')} of {len(prompts):,} longer than the {most:,} positions of "
            f"{llm.name}, the first is request {int((prompts > most).argmax())} of {int(prompts[prompts > most][0]):,} "
            "tokens; take shorter prompts or a model with more positions"
        )


def cut_requests(llm: LlmSpec, workload: Workload) -> int:
    """Requests of a workload that would need more positions than the model has: their contexts stop growing there."""
    return int((workload.prompt_tokens + workload.output_tokens - 1 > llm.max_position_embeddings).sum())


def warm_up_of(workload: Workload) -> int:
    """Iterations before those that count; 0 where requests have arrivals of their own."""
    return 0 if workload.timed else ceil(WARM_UP_OUTPUTS * float(workload.output_tokens.mean()))


def summary(
    system: System, llm: LlmSpec, plan: Plan, workload: Workload, done: Batched, served: Sequence[Served | Run]
) -> Decoded:
    """All of it in the result's fields."""
    by_cause = total_j([(_device_j(one), plan.tp * n) for one, n in zip(served, done.weights, strict=True)])
    joules = None if by_cause is None else fsum(by_cause.values())
    came, there = int(done.came.sum()), traits(system.kind).deployed(system, plan.tp)
    return Decoded(
        system=system.name,
        model=llm.name,
        fidelity=plan.fidelity,
        workload=described(workload, plan, llm),
        batch=plan.batch,
        tp=plan.tp,
        pp=plan.pp,
        deployed=there.said,
        nodes=there.nodes,
        devices=there.devices,
        layers=plan.layers,
        model_layers=llm.num_hidden_layers,
        lm_head=has_outside(system, plan.outside),
        iterations=len(done.seconds),
        simulated_iterations=len(served),
        every=plan.every,
        interpolation_error=done.interpolation_error,
        chunk=plan.chunk,
        batch_mean=float(done.batch.mean()),
        context_mean=float(done.tokens.sum() / done.batch.sum()),
        time_s=done.time_s,
        tokens_per_s=done.tokens_per_s,
        token_time_s=done.token_time_s,
        time_to_first_token_s=done.time_to_first_token_s if plan.chunk and workload.timed else None,
        wait_s=done.wait_s if workload.timed else None,
        latency_s=done.latency_s,
        energy_j=joules,
        energy_per_token_j=joules / came if joules is not None and came else None,
        energy_by_cause_j=by_cause,
        requests_finished=int(np.isfinite(done.end_s).sum()),
        preemptions=done.preemptions,
        iteration_batch=done.batch.tolist(),
        iteration_tokens=done.tokens.tolist(),
        iteration_s=done.seconds.tolist(),
        spec_digest=workload_digest(system, llm, workload, plan),
        version=__version__,
        energy_by_cell=None if by_cause is None else energy_by_cell(system, by_cause, plan.tp),
    )


def _device_j(one: Served | Run) -> Mapping[str, float] | None:
    """Energy of an iteration by cause, of one device."""
    return one.iteration_energy_by_cause_j if isinstance(one, Served) else one.device_j


def workload_digest(system: System, llm: LlmSpec, workload: Workload, plan: Plan) -> str:
    """Digest of everything that decides the iterations of a workload; its name and note do not.

    The seed does where it draws who comes next: requests that come at times of their own are taken as they come.
    """
    columns = (workload.arrival_s, workload.prompt_tokens, workload.output_tokens)
    requests = [column.tolist() for column in columns]
    seed = None if workload.timed else plan.seed
    return plan.digest(system, llm, requests=requests, seed=seed, timed=workload.timed)


def described(workload: Workload, plan: Plan, llm: LlmSpec) -> dict[str, Any]:
    """Where the requests came from, and how they were placed."""
    return {
        "name": workload.name,
        "note": workload.note,
        "policy": plan.policy,
        "seed": plan.seed,
        "warm_up_iterations": warm_up_of(workload),
        "cut_requests": cut_requests(llm, workload),
        "requests": len(workload.arrival_s) if workload.timed else None,
    }
