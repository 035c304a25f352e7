"""Requests through a scheduler's clock over the prices of a device."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from pimloom.arch.system import System
from pimloom.arch.units import S_PER_PS
from pimloom.arch.version import __version__
from pimloom.energy.cells import EnergyCell
from pimloom.systems.devices.boundary import AT_REST, energy_by_cell
from pimloom.systems.devices.device import Device
from pimloom.systems.serving.online.bounded import NOTHING, Rerun, bounded
from pimloom.systems.serving.online.channels import channels_told
from pimloom.systems.serving.online.clocked import run
from pimloom.systems.serving.online.plan import Plan
from pimloom.systems.serving.options.named import scheduler_of
from pimloom.systems.serving.pricing.contexts import longest_of, spread_of
from pimloom.systems.serving.pricing.costs import Costs, Exact
from pimloom.systems.serving.pricing.costs import Progress as Progress
from pimloom.systems.serving.pricing.fitted import Fitted
from pimloom.systems.serving.pricing.grid import Grid
from pimloom.systems.serving.pricing.interpolated import Interpolated
from pimloom.systems.serving.pricing.sampling import Sample
from pimloom.systems.serving.results.backlog import backlog
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

SAMPLED = 64  # [design] of as many steps that a device simulates one by one, one is of a sample
FITTED = 16  # [design] the same where prices are fitted to the sample


class Service(NamedTuple):
    """What serves: costs of a device, costs with what drafts for it (`Interpolated`, unless all are exact), how,
    limits, and the known fields of results. rest_w: of all devices of a stage [W], None: not known; usd_per_h: price of
    all devices of all replicas [$/h]; notes: on what may come; system: that it is on; pools: systems of other
    pools by name."""

    exact: Exact
    costs: Costs
    plan: Plan
    slo: Slo | None
    named: dict[str, Any]
    rest_w: float | None = None
    usd_per_h: float | None = None
    notes: tuple[str, ...] = ()
    system: System | None = None
    pools: Mapping[str, System] = {}

    def cells(self, joules: Mapping[str, float] | None) -> dict[str, EnergyCell] | None:
        """Energy by cell of the ledger; None without energy, or with drafts, whose machine has another ledger."""
        if joules is None or self.system is None or "drafts" in joules:
            return None
        return energy_by_cell(self.system, joules, self.named["tp"], self.pools)


def service(device: Device, requests: Requests, plan: Plan, slo: Slo | None, named: dict[str, Any]) -> Service:
    """For requests of such lengths, at whatever times."""
    exact, transform, spread = Exact(device), plan.transform, spread_of(requests)
    costs: Costs = transform.joined(exact, True, spread) if transform else exact
    if plan.exact:
        return Service(exact, costs, plan, slo, named)
    prices: Costs
    if (coarse := getattr(device, "between", lambda: device)()) is not device:
        prices = Exact(coarse, exact.causes)
    elif getattr(device, "outline", None) is not None:
        prices = Fitted(exact)
    elif transform:
        prices = transform.grid(exact, spread)
    else:
        budget, shared = plan.limits.budget(plan.scheduler), plan.limits.prefix is not None
        prices = Grid(exact, spread, plan.limits.positions, budget, longest_of(requests, plan.scheduler), shared=shared)
    prices = transform.joined(prices, False, spread) if transform else prices
    few = device.exact_steps
    size = max(plan.sample, few // (FITTED if isinstance(prices, Fitted) else SAMPLED)) if plan.sample else 0
    return Service(exact, Interpolated(prices, costs, exact, few, size, plan.seed), plan, slo, named)


def serve_online(
    by: Service, requests: Requests, progress: Progress, tried: bool = False, sampled: bool = True
) -> Online:
    """Serve all requests to their end. tried: limits that no request meets are no error; sampled: whether errors of
    prices are measured. Raises UserError."""
    least = max(*requests.output, sum(requests.output) // (by.plan.limits.batch * by.plan.replicas))
    return bounded(way_of([by], least, lambda told: _served(by, requests, told, tried), sampled), progress)


def way_of(by: Sequence[Service], least: int, run: Callable[[Progress], Online], sampled: bool) -> Rerun:
    """The run of machines that serve the same requests."""
    plan = by[0].plan
    costs = [one.costs for one in by if isinstance(one.costs, Interpolated)]
    return Rerun(run, lambda: costs, lambda: sum(one.exact.steps for one in by), least, plan.price_error,
               sampled and plan.sample > 0)  # fmt: skip


def _served(by: Service, requests: Requests, progress: Progress, tried: bool) -> Online:
    """One run."""
    plan, transform = by.plan, by.plan.transform
    sample = sample_of(by.costs)
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
    found = told_by(by, requests, live, record, causes, schedulers, drafts, tried)
    return replace(found, beside=_beside(filled, record, found.time_s)) if filled else found


def sample_of(costs: Costs) -> Sample | None:
    """A sample of iterations for the run that begins; None if prices are exact."""
    return costs.draw() if isinstance(costs, Interpolated) else None


def _beside(filled: Filled, record: Record, time_s: float) -> dict[str, float]:
    """What was fine-tuned beside requests; peak: of the machine alone."""
    job, rate = filled.job, filled.job.tokens / time_s
    peak = job.length / (filled.peak() * S_PER_PS)
    return {
        "finetuned_tokens": job.tokens, "finetuned_tokens_per_s": rate, "peak_tokens_per_s": peak,
        "share_of_peak": rate / peak, "energy_j": record.others,
    }  # fmt: skip


def told_by(
    by: Service,
    requests: Requests,
    live: list[LiveRequest],
    record: Record,
    causes: tuple[str, ...] | None,
    schedulers: list[Scheduler],
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
    sums = summed(ended, columns, by.usd_per_h)
    return Online(
        **by.named,
        **sums,
        energy_by_cell=by.cells(sums["energy_by_cause_j"]),
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
        pricing=NOTHING,
        backlog=None
        if plan.clients
        else backlog(*(columns[name] for name in ("arrival_s", "first_scheduled_s", "completion_s"))),
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
