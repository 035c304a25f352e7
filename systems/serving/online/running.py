"""Requests through a scheduler's clock over the prices of a device."""

from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import replace

from pimloom.arch.error import UserError
from pimloom.arch.system import System
from pimloom.arch.units import S_PER_PS
from pimloom.arch.version import __version__
from pimloom.systems.devices.device import Device
from pimloom.systems.serving.online.channels import channels_told
from pimloom.systems.serving.online.clocked import run
from pimloom.systems.serving.online.plan import Plan
from pimloom.systems.serving.options.named import scheduler_of
from pimloom.systems.serving.pricing.contexts import longest_of, mean_context, spread_of
from pimloom.systems.serving.pricing.costs import Costs, Exact
from pimloom.systems.serving.pricing.costs import Progress as Progress
from pimloom.systems.serving.pricing.grid import Grid
from pimloom.systems.serving.pricing.rehearsal import FEWER, MORE, Counted, Guessed, ManyError, first_knots
from pimloom.systems.serving.pricing.sampling import Pricing, Sample, measured
from pimloom.systems.serving.results.limits import Slo
from pimloom.systems.serving.results.outcome import Online
from pimloom.systems.serving.results.record import DraftedRecord, FilledRecord, Record
from pimloom.systems.serving.results.summing import (
    Ended,
    attained,
    of_iterations,
    of_requests,
    plain,
    summed,
    utilisation,
)
from pimloom.systems.serving.schedulers.live import LiveRequest, Scheduler
from pimloom.systems.serving.sharing.finetuning import Beside, Filled
from pimloom.systems.serving.transforms.speculated import Speculated
from pimloom.workload.finetuning import Job
from pimloom.workload.requests.statistics import statistics
from pimloom.workload.requests.table import Requests

AT_REST = "at rest"  # the cause of what devices take while they have nothing to do


class Service(NamedTuple):
    """What serves: costs of a device (grid: None if all are exact), costs with what drafts for it, how, limits, and the
    known fields of results. rest_w: of all devices of a stage [W], None: not known; usd_per_h: price of all devices of
    all replicas [$/h]; notes: on what may come; system: that it is on."""

    exact: Exact
    grid: Costs | None
    costs: Costs
    plan: Plan
    slo: Slo | None
    named: dict[str, Any]
    rest_w: float | None = None
    usd_per_h: float | None = None
    notes: tuple[str, ...] = ()
    system: System | None = None


def service(device: Device, requests: Requests, plan: Plan, slo: Slo | None, named: dict[str, Any]) -> Service:
    """For requests of such lengths, at whatever times."""
    if not plan.exact:
        device = getattr(device, "between", lambda: device)()
    exact, transform, spread = Exact(device), plan.transform, spread_of(requests)
    grid: Costs | None = None
    if not plan.exact:
        budget = plan.limits.budget(plan.scheduler)
        grid = (
            transform.grid(exact, spread)
            if transform
            else Grid(
                exact,
                spread,
                plan.limits.positions,
                budget,
                longest_of(requests, plan.scheduler),
                shared=plan.limits.prefix is not None,
            )  # fmt: skip
        )
    costs = transform.joined(grid or exact, plan.exact, spread) if transform else grid or exact
    return Service(exact, grid, costs, plan, slo, named)


def serve_online(
    by: Service, requests: Requests, progress: Progress, tried: bool = False, sampled: bool = True
) -> Online:
    """Until all requests have ended. tried: limits that none holds are no error; sampled: whether the error of prices
    is told. Raises UserError."""
    by = _short(by, requests)
    plan, transform = by.plan, by.plan.transform
    _rehearse(by, requests, progress)
    sample = None if by.grid is None else Sample(plan.sample if sampled else 0, plan.seed)
    filled = None if plan.finetuning is None else Filled(by.costs, Job(plan.finetuning.sequence), plan.limit_ps)
    count = len(requests.prompt)
    kind = DraftedRecord if transform and transform.apart else Record
    record = FilledRecord(by.costs, count, sample, filled) if filled else kind(by.costs, count, sample)
    schedulers: list[Scheduler] = [scheduler_of(plan.scheduler, plan.limits) for _ in range(plan.replicas)]
    live = [LiveRequest(*each) for each in zip(range(len(requests.prompt)), *requests[1:4], strict=True)]
    drafts = transform.dress(live) if transform else None
    if filled:
        left = [len(live)]
        schedulers = [Beside(scheduler, left, filled.fits_alone) for scheduler in schedulers]
    run(live, schedulers, record, plan, progress)
    beside = ("drafts",) if transform and transform.extra and by.exact.causes else ()
    causes = (*beside, *by.exact.causes) or None
    found = told_by(by, requests, live, record, causes, schedulers, ended_by(by, sample), drafts, tried)
    return replace(found, beside=_beside(filled, record, found.time_s)) if filled else found


def _short(by: Service, requests: Requests) -> Service:
    """With each iteration simulated, if these are fewer than a grid has knots, were they to take no time."""
    grid, plan = by.grid, by.plan._replace(exact=True)
    if type(grid) is not Grid or grid.tile == 1 or plan.transform or plan.finetuning or max(requests.output) > FEWER:
        return by
    counts = Counted(by.exact.device)
    live = [LiveRequest(*each) for each in zip(range(len(requests.prompt)), *requests[1:4], strict=True)]
    schedulers: list[Scheduler] = [scheduler_of(plan.scheduler, plan.limits) for _ in range(plan.replicas)]
    try:
        run(live, schedulers, Record(counts, len(live)), plan, lambda done, total: None)
    except ManyError:
        return by
    return by._replace(grid=None, costs=by.exact, plan=plan)


def _rehearse(by: Service, requests: Requests, progress: Progress) -> None:
    """Simulate ahead what a run over guesses asks for, where each is worth it: on arrays that take rows in tiles.
    progress: of these."""
    grid, plan = by.grid, by.plan
    if type(grid) is not Grid or grid.tile == 1 or plan.transform or plan.finetuning or len(requests.prompt) < MORE:
        return
    by.exact.know(first_knots(grid, mean_context(requests), sum(requests.prompt)), progress)
    if not by.exact.known:
        return
    guessed = Guessed(by.exact)
    rough = Grid(guessed, grid.spread.tolist(), grid.positions, grid.budget, grid.longest, shared=grid.shared)
    live = [LiveRequest(*each) for each in zip(range(len(requests.prompt)), *requests[1:4], strict=True)]
    schedulers: list[Scheduler] = [scheduler_of(plan.scheduler, plan.limits) for _ in range(plan.replicas)]
    with suppress(UserError):  # the run itself tells
        run(live, schedulers, Record(rough, len(live)), plan, lambda done, total: None)
    by.exact.know(list(guessed.asked), progress)


def _beside(filled: Filled, record: Record, time_s: float) -> dict[str, float]:
    """What was fine-tuned beside requests; peak: of the machine alone."""
    job, rate = filled.job, filled.job.tokens / time_s
    peak = job.length / (filled.peak() * S_PER_PS)
    return {
        "finetuned_tokens": job.tokens, "finetuned_tokens_per_s": rate, "peak_tokens_per_s": peak,
        "share_of_peak": rate / peak, "energy_j": record.others,
    }  # fmt: skip


def ended_by(by: Service, sample: Sample | None) -> Pricing:
    """How far prices were off. Raises UserError."""
    if by.grid and sample:
        return measured(by.grid, by.exact, sample)
    return Pricing(True, by.exact.steps, 0, None, None, None)


def told_by(
    by: Service,
    requests: Requests,
    live: list[LiveRequest],
    record: Record,
    causes: tuple[str, ...] | None,
    schedulers: list[Scheduler],
    pricing: Pricing,
    drafts: Speculated | None,
    tried: bool,
) -> Online:
    """The result. Raises UserError for a limit that none holds, unless it is tried."""
    plan, slo = by.plan, by.slo
    if causes is not None and by.rest_w is not None:
        rest(by, record, len(causes), live[0].arrival, max(record.end))
        causes = causes if record.rest_w is None else (*causes, AT_REST)
    ended = Ended(live, record, causes, schedulers)
    columns = of_requests(ended)
    held, good = (None, None) if slo is None else attained(slo, columns, tried)
    if good is not None:
        columns["slo"] = good
    hits = columns["prefix_hit_tokens"].sum() / columns["prompt_tokens"].sum() if plan.limits.prefix else None
    limits, span_ps = plan.limits, max(record.end) - live[0].arrival
    return Online(
        **by.named,
        **summed(ended, columns, by.usd_per_h),
        rest_w=record.rest_w,
        rest_j=record.rest_j,
        utilisation=utilisation(record.work, plan.replicas * plan.stages, span_ps) or None,
        scheduler=plan.scheduler,
        pp=plan.stages,
        replicas=plan.replicas,
        batch=limits.batch,
        batch_tokens=limits.budget(plan.scheduler),
        block_size=schedulers[-1].blocks.size,
        blocks=schedulers[-1].blocks.total,
        channels=channels_told(limits, schedulers),
        statistics=statistics(requests),
        pricing=pricing,
        slo=held,
        accepted_share=drafts.right / drafts.checked if drafts and drafts.checked else None,
        tokens_per_step=1 + drafts.right / drafts.steps if drafts and drafts.steps else None,
        prefix_hit_share=None if hits is None else float(hits),
        by_request={name: plain(column) for name, column in columns.items()},
        by_iteration=of_iterations(ended),
        version=__version__,
        seed=plan.seed,
    )


def rest(by: Service, record: Record, causes: int, start_ps: int, end_ps: int, busy_ps: float | None = None) -> None:
    """Add what stages take while they have nothing to do, between two times, as the cause behind all others; nothing if
    it is not known of a machine that drafts. busy_ps: None for iterations that run one after the other."""
    assert by.rest_w is not None
    plan, span_ps = by.plan, (end_ps - start_ps) * by.plan.replicas
    idle_ps = span_ps - (sum(record.ticks) if busy_ps is None else busy_ps)  # of each stage
    watts, ps_w = by.rest_w * plan.stages, by.rest_w * plan.stages * idle_ps
    if isinstance(record, DraftedRecord) and plan.transform and (apart := plan.transform.apart):
        if apart.rest_w is None:
            return
        watts += apart.rest_w
        ps_w += by.rest_w * record.waited_ps + apart.rest_w * (span_ps - record.drafting_ps)
    record.rest_w, record.rest_j = watts * plan.replicas, ps_w * S_PER_PS
    joules = record.rest_j
    record.by_cause = [*record.by_cause, *[0.0] * (causes - len(record.by_cause)), joules]
    record.beside += joules
