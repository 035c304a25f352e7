"""Prompts and decode on shares of one machine: requests through both processes, and one result of it all."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import S_PER_PS
from pimloom.systems.devices.boundary import AT_REST
from pimloom.systems.devices.run import LIMITS
from pimloom.systems.serving.online.bounded import Rerun, bounded
from pimloom.systems.serving.online.clocked import check_ended
from pimloom.systems.serving.online.prepared import Source, prepared
from pimloom.systems.serving.online.running import Progress, Service, rest, sample_of, told_by
from pimloom.systems.serving.options.named import scheduler_of
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.pricing.costs import JOULES, Cost, Piece
from pimloom.systems.serving.pricing.interpolated import Interpolated
from pimloom.systems.serving.results.outcome import Online
from pimloom.systems.serving.results.record import Record
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.sharing.clock import Process, Shared, Work
from pimloom.systems.serving.sharing.controller import WHOLE, Controller, Seen
from pimloom.systems.serving.sharing.machine import BY_SHARE, in_arrays, of_arrays
from pimloom.systems.serving.sharing.semi_pd import SharedPrompts
from pimloom.systems.serving.sharing.written import parse_shares
from pimloom.workload.requests.table import Requests

EQUAL = "prefill=50,decode=50"


class Priced:
    """Costs of a machine of a share, sampled as others are. Causes that run with time count by the share, and work of
    its arrays counts as work of all. memory_ps: of the last iteration, of the memory at its full rate."""

    def __init__(self, by: Service, share: Fraction) -> None:
        self.by, self.part, self.memory_ps = by, float(share) / WHOLE, 0.0
        self.sample = sample_of(by.costs)

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """See `Costs`."""
        ps, *work = self.by.costs.of(pieces)
        work, joules = work[: JOULES - 1], work[JOULES - 1 :]
        self.memory_ps = work[LIMITS.index("memory bandwidth")]
        work[LIMITS.index("compute")] *= self.part
        if self.sample:
            self.sample.see(pieces, ps)
        causes = self.by.exact.causes
        parts = (self.part if cause in BY_SHARE else 1.0 for cause in causes)
        return [ps, *work, *(j * part for j, part in zip(joules, parts, strict=False))]


class Machine:
    """What serves with each share; arrays: as `in_arrays` has it."""

    def __init__(self, wanted: Wanted, llm: LlmSpec, requests: Requests, source: Source) -> None:
        self.wanted, self.llm, self.requests, self.source = wanted, llm, requests, source
        self.shares = parse_shares(wanted.shares or EQUAL)
        self.system: System = source.load(wanted.system, wanted.settings or ())
        self.arrays = in_arrays(self.system, self.shares)
        self.made = dict[Fraction, Service]()
        self.of(self.shares.prefill)
        self.of(self.shares.decode)

    def of(self, share: Fraction) -> Service:
        """A processor is the same for all shares."""
        key = share if self.arrays else Fraction(WHOLE)
        if key not in self.made:
            settings = {} if not self.arrays else of_arrays(self.system, share)
            asked = [*(self.wanted.settings or ()), *(f"{name}={value}" for name, value in settings.items())]
            self.made[key] = prepared(
                self.wanted._replace(settings=asked), self.llm, self.requests, self.source,
                more={"shares": self.shares},
            )  # fmt: skip
        return self.made[key]

    def costs(self) -> list[Interpolated]:
        """The interpolated prices of all shares so far."""
        return [one.costs for one in self.made.values() if isinstance(one.costs, Interpolated)]

    def simulated(self) -> int:
        """Number of iterations simulated for all shares so far."""
        return sum(one.exact.steps for one in self.made.values())


class Phase:
    """A process of one of the two. seen: told of an iteration that has ended."""

    def __init__(self, machine: Machine, number: int, requests: int) -> None:
        self.machine, self.number = machine, number
        self.priced = dict[int, Priced]()
        self.record = Record(self, requests)
        self.shares, self.told = list[float](), list[LiveRequest]()
        self.whole_ps, self.computed = 0.0, 0
        self._now: Priced | None = None

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """Costs with the share of now."""
        assert self._now is not None
        return self._now.of(pieces)

    def price(self, made: Iteration, share: Fraction) -> Work:
        """Work of an iteration, noted: of a processor on all of it, of an NPU on so many arrays."""
        by, apart = self.machine.of(share), self.machine.arrays is not None
        if id(by) not in self.priced:
            self.priced[id(by)] = Priced(by, share if apart else Fraction(WHOLE))
        self._now = self.priced[id(by)]
        ps = self.record.price(made)
        self.shares.append(float(share))
        self.whole_ps += ps * float(share) / WHOLE if apart else ps
        self.computed += len(made.requests)
        return Work(ps, share, min(self._now.memory_ps / ps, 1.0) if apart else 0.0)

    def seen(self, scheduler: Scheduler, made: Iteration) -> None:
        """It has ended."""
        self.record.seen(self.number, scheduler, made)
        self.told += [r for r in made.requests if made.end in (r.first_token, r.completion)]


class Window:
    """Counts iterations, and has the controller look."""

    def __init__(self, machine: Machine, phases: tuple[Phase, Phase], processes: tuple[Process, Process]) -> None:
        self.phases, self.processes, self.count, self.since = phases, processes, 0, 0
        control, slo = machine.shares.control, machine.made[next(iter(machine.made))].slo
        self.controller: Controller | None = None
        if control:
            if slo is None or slo.ttft is None or slo.tpot is None:
                raise UserError("--shares window: expected limits that shares follow, --slo ttft=1s,tpot=50ms")
            control = control._replace(apart=machine.arrays is not None)
            self.controller = Controller(control, machine.shares.prefill, machine.shares.decode, slo.ttft, slo.tpot)

    def __call__(self, now: int) -> None:
        """An iteration has ended."""
        self.count += 1
        if self.controller is None or self.count % self.controller.control.window:
            return
        percentile = self.controller.control.percentile
        prompts, decodes = self.phases
        first = [(r.first_token - r.arrival) * S_PER_PS for r in prompts.told if r.first_token >= 0]
        ended = [r for r in (*prompts.told, *decodes.told) if r.completion >= 0 and r.output > 1]
        each = [(r.completion - r.first_token) / (r.output - 1) * S_PER_PS for r in ended]
        seen = Seen(
            float(np.percentile(first, percentile)) if first else None,
            float(np.percentile(each, percentile)) if each else None,
            WHOLE * prompts.whole_ps / max(now - self.since, 1),
        )
        self.processes[0].share, self.processes[1].share = self.controller.look(seen)
        self.since, prompts.whole_ps, prompts.told, decodes.told = now, 0.0, [], []


def serve_shared(machine: Machine, requests: Requests, progress: Progress, tried: bool, sampled: bool) -> Online:
    """Serve all requests to their end. tried: limits that no request meets are no error; sampled: whether errors of
    prices are measured. Raises UserError."""
    plan = machine.of(machine.shares.prefill).plan
    way = Rerun(
        partial(_served, machine, requests, tried), machine.costs, machine.simulated, max(requests.output),
        plan.price_error, sampled and plan.sample > 0,
    )  # fmt: skip
    return bounded(way, progress)


def _served(machine: Machine, requests: Requests, tried: bool, progress: Progress) -> Online:
    """One run."""
    by = machine.of(machine.shares.prefill)
    live = [LiveRequest(*each) for each in zip(range(len(requests.prompt)), *requests[1:4], strict=True)]
    prompts = scheduler_of(by.plan.scheduler, by.plan.limits)
    assert isinstance(prompts, SharedPrompts)
    phases = Phase(machine, 0, len(live)), Phase(machine, 1, len(live))
    schedulers: tuple[Scheduler, Scheduler] = (prompts, prompts.decodes)
    shares = machine.shares.prefill, machine.shares.decode
    processes = [
        Process(scheduler, phase.price, partial(phase.seen, scheduler), share)
        for scheduler, phase, share in zip(schedulers, phases, shares, strict=True)
    ]
    both = processes[0], processes[1]
    clock = Shared(*both, machine.arrays is None, Window(machine, phases, both))
    clock.serve(live, progress)
    check_ended(live, *(phase.record for phase in phases))
    record, shown = phases[0].record, phases[0].shares + phases[1].shares
    record.add(phases[1].record)
    causes = tuple(next((one.by.exact.causes for one in phases[0].priced.values()), []))
    if causes and by.rest_w is not None:
        start, end = live[0].arrival, max(record.end)
        rest(by, record, len(causes), start, end, end - start - clock.rested)
        causes = (*causes, AT_REST)
    by = by._replace(rest_w=None)
    found = told_by(by, requests, live, record, causes or None, list(schedulers), None, tried)
    found.by_iteration["share"] = [one / WHOLE for one in shown]
    return found
