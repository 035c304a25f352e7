"""Which machine serves a trace best, per joule and per dollar, and at which load another one does."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pimloom.arch.llm import load_llm
from pimloom.arch.units import S_PER_H
from pimloom.reports.compare.cells import sum_sign
from pimloom.systems.pool import run_all
from pimloom.systems.serving.online.asked import requests_of, within_positions
from pimloom.systems.serving.online.prepared import prepared
from pimloom.systems.serving.online.running import Service, serve_online
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.results.goodput import SHARE, RateTrials, Trial, served_steadily
from pimloom.workload.requests.table import Requests, repeated

HERE = Path(__file__).parent
TRACE = HERE / "azure2023_conv_0_200.csv"
MODEL, SLO = "llama-2-7b", "ttft=1s,tpot=50ms"  # [design]
LOADS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # requests a second [design]
ALONE, MOST_COPIES = 0.01, 64  # a load at which requests hardly meet; copies of a machine that are tried
BATCH_TOKENS = 512  # of an iteration [design]


class Machine(NamedTuple):
    """A line of machines.csv. tp: as `pimloom serve` takes it; devices: that are paid for; scheduler: vLLM v1, or v0
    where prompts and decode go in steps of their own; usd_per_h: of one; rest_w: of each device at all times, beside
    what the system tells by itself."""

    system: str
    tp: int
    devices: int
    settings: tuple[str, ...]
    scheduler: str
    usd_per_h: float
    tag: str
    source: str
    rest_w: float
    rest_source: str


class Point(NamedTuple):
    """A machine at a load. copies: least that hold the limits, of those tried; backlog: its state, as of `Backlog`;
    held: share of requests between warm-up and end that hold the limits; j, usd: of an output token; rest: share of
    the energy while nothing is to do; devices: of a copy; sign: `≤ ` or `≥ ` if `j` is a bound."""

    machine: str
    load: float
    copies: int
    backlog: str
    held: float
    ttft_p90_s: float
    tpot_p90_s: float
    j: float
    usd: float
    rest: float
    busy: float
    devices: int
    sign: str

    @property
    def holds(self) -> bool:
        """Whether it is a candidate."""
        return self.backlog == "steady" and self.held >= SHARE


def machines() -> list[Machine]:
    """All that take the model, in the order of the file."""
    with (HERE / "machines.csv").open(newline="", encoding="utf-8") as file:
        return [
            Machine(
                row["system"], int(row["tp"]), int(row["devices"]), tuple(row["settings"].split()),
                row["scheduler"],
                float(row["usd_per_h"]), row["tag"], row["source"], float(row["rest_w"] or 0), row["rest_source"],
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


class Served:
    """A machine with the trace; iterations that it has simulated serve all loads."""

    def __init__(self, machine: Machine, model: str = MODEL, requests: int | None = None) -> None:
        self.machine = machine
        wanted = Wanted(
            machine.system, model, trace=TRACE, requests=requests, tp=machine.tp, settings=machine.settings, slo=SLO,
            batch_tokens=None if machine.scheduler == "vllm-v0" else BATCH_TOKENS, cut=True, sample=0,
            scheduler=machine.scheduler, rate=f"{ALONE:g}:{LOADS[-1]:g}",
        )  # fmt: skip
        llm = load_llm(model)
        self.requests: Requests = within_positions(llm, requests_of(wanted), cut=True)[0]
        self.by: Service = prepared(wanted, llm, self.requests)

    @property
    def rest_w(self) -> float | None:
        """Of one copy [W]; None: not known."""
        beside = self.machine.rest_w * self.machine.devices
        return self.by.rest_w if not beside else beside + (self.by.rest_w or 0.0)

    def point(self, load: float) -> Point:
        """With the fewest copies that hold the limits, by doubling and halving; one if none are enough."""
        copies = 1
        first = found = self.run(load, 1)
        while not found.holds and copies < MOST_COPIES and self.ever:
            copies *= 2
            found = self.run(load, copies)
        if not found.holds:
            return first
        fails = copies // 2
        while copies - fails > 1:
            middle = self.run(load, (fails + copies) // 2)
            if middle.holds:
                copies, found = middle.copies, middle
            else:
                fails = middle.copies
        return found

    @cached_property
    def ever(self) -> bool:
        """Whether requests that hardly meet hold the limits."""
        return self.run(ALONE, 1).holds

    def run(self, load: float, copies: int) -> Point:
        """So many copies. Raises UserError."""
        by = self.by._replace(plan=self.by.plan._replace(replicas=copies))
        stream = RateTrials(
            len(self.requests.prompt),
            lambda times: repeated(self.requests, times),
            lambda some, progress: serve_online(by, some, progress, tried=True),
        )
        return self._told(copies, served_steadily(stream, load))

    def _told(self, copies: int, trial: Trial) -> Point:
        machine, load, found = self.machine, trial.rate, trial.told()
        each = found.time_per_output_token_s
        assert found.slo is not None and found.energy_j is not None
        tokens = found.tokens_per_s * found.time_s
        beside = machine.rest_w * machine.devices * copies * found.time_s
        joules = found.energy_j + beside
        usd = machine.usd_per_h * machine.devices * copies * found.time_s / S_PER_H
        return Point(
            machine.system, load, copies, trial.backlog.state,
            found.slo.all, found.time_to_first_token_s.p90, each.p90 if each else 0.0,
            joules / tokens, usd / tokens, ((found.rest_j or 0.0) + beside) / joules, found.busy_share,
            machine.devices, sum_sign(found.energy_by_cell or {}),
        )  # fmt: skip


class Line(NamedTuple):
    """A machine over all loads. rest_w: of a copy that waits [W]; None: not known."""

    machine: Machine
    rest_w: float | None
    points: tuple[Point, ...]


def line(job: tuple[Machine, Sequence[float]]) -> Line:
    """A machine at loads; what it simulates for one of them serves the others, too. Raises UserError."""
    served = Served(job[0])
    return Line(job[0], served.rest_w, tuple(served.point(load) for load in job[1]))


def lines_of(some: Sequence[Machine], loads: Sequence[float], count: Callable[[], None]) -> list[Line]:
    """All machines, on all cores."""
    found = dict[Machine, Line]()
    for (machine, _), one in run_all(line, [(machine, loads) for machine in some]):
        found[machine] = one
        count()
    return [found[machine] for machine in some]


def winner(points: Iterable[Point], what: str) -> Point | None:
    """Of a load: the least `j` or `usd` of those that hold the limits."""
    able = [point for point in points if point.holds]
    return min(able, key=lambda point: float(getattr(point, what))) if able else None


class Crossing(NamedTuple):
    """Between two loads that were served the winner is another one."""

    what: str
    low: float
    high: float
    before: str
    behind: str


def crossings(points: Sequence[Point], what: str) -> Iterator[Crossing]:
    """Where the winner changes; loads at which none holds the limits lie between."""
    loads = sorted({point.load for point in points})
    best = [(load, one) for load in loads if (one := winner((p for p in points if p.load == load), what)) is not None]
    for (low, before), (high, behind) in pairwise(best):
        if before.machine != behind.machine:
            yield Crossing(what, low, high, before.machine, behind.machine)
