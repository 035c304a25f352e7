"""APEX: ways to lay a model on several devices, each served by the engine; experts cut like all else, or whole."""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from math import fsum
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.roofline import RooflineSystem
from pimloom.arch.routing import UNIFORM
from pimloom.arch.system import System, load_system
from pimloom.cycle_sim.link import Sent, all_to_all
from pimloom.reports.serving.rows import Row, row, within
from pimloom.systems.devices.device import Capacity, Device, Share
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.devices.run import Run
from pimloom.systems.serving.online.asked import served_on
from pimloom.systems.serving.online.prepared import Source
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.overlap.operators import Talk, chain_of
from pimloom.workload.batch import Batch
from pimloom.workload.need import kv_bytes_per_token, parameters, weights
from pimloom.workload.op import Op
from pimloom.workload.requests.arrivals import parse_arrivals
from pimloom.workload.requests.read import read
from pimloom.workload.routing import busy_chances

TRACE = Path(__file__).parent / "azure2023_conv_0_200.csv"
GPU, SEARCH_S, WIDE = "gpu_a100", 900, 2  # [paper] its 15 minutes; bytes
CASES = (  # [design] devices, arrivals
    ("llama-3-8b", 4, "poisson:8/s"), ("mixtral-8x7b", 8, "poisson:2/s"), ("mixtral-8x7b", 8, "poisson:16/s"),
)  # fmt: skip
OF_EXPERTS, DRAWS = ("ffn1", "ffn2", "activation"), 8  # operators; layers whose routes are drawn, all tokens alike


class Plan(NamedTuple):
    """Devices that share a layer, stages, copies; whole: attention is of a device's own requests, and experts lie whole
    on one device each (expert parallelism)."""

    tp: int
    pp: int
    copies: int
    whole: bool = False

    def __str__(self) -> str:
        how = f"ep {self.tp}" if self.whole else f"tp {self.tp}, pp {self.pp}"
        return f"{how}, {self.copies} cop{'y' if self.copies == 1 else 'ies'}"


class Experts:
    """See `Device`: `share.tp` devices, each with attention for its part of the requests, and its part of the experts;
    tokens cross the system's links to their experts and back. Routes are drawn, seeded, each expert as likely."""

    most_requests: int | None = None
    in_order = False
    exact_steps = RooflineDevice.exact_steps

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        self.llm, self.share = llm, share
        roomy = load_system(system.name, {"memory_bytes": str(10**15)})  # what it holds is reckoned below
        self.own = RooflineDevice(roomy, llm, share._replace(tp=1, layers=1))  # all are alike
        self.cut = RooflineDevice(roomy, llm, share._replace(outside=False, layers=1))
        self.memory_bytes = system.of_kind(RooflineSystem).memory_bytes

    def can_run(self, ops: Any) -> str | None:
        """All."""
        return None

    def capacity(self) -> Capacity:
        """Of one device: attention's weights whole, of the experts its part; caches of its own requests."""
        n, experts = self.share.tp, weights(self.llm).experts
        held = WIDE * (parameters(self.llm) - experts + experts // n)
        each = kv_bytes_per_token(self.llm)
        tokens = max(self.memory_bytes - held, 0) // each * n
        return Capacity(self.memory_bytes, held, Fraction(each, n), tokens)

    def check(self, batch: Batch) -> None:
        """Raise UserError unless it fits."""
        most, needed = self.capacity().tokens, sum(batch.contexts)
        if needed > most:
            raise UserError(f"{self.llm.name}: {needed:,} tokens in all, and {most:,} fit; take more devices")

    def step(self, batch: Batch) -> Run:
        """The device with most to do; nothing overlaps."""
        self.check(batch)
        n, llm = self.share.tp, self.llm
        mine = Batch(batch.requests[::n])
        own = chain_of(self.own, mine, _silent)
        crowd = crowding(llm.num_experts, llm.num_experts_per_tok, n, batch.rows)
        ps = sum(task.alone for task in own.tasks if task.name not in OF_EXPERTS)
        for task in chain_of(self.cut, batch, _silent).tasks:
            if task.name in OF_EXPERTS:
                ps += task.alone * crowd[0 if task.shares[0] >= task.shares[1] else 1]
        ps *= self.share.layers
        fabric, times = self.cut.fabric, 2 * self.share.layers  # there and back
        assert fabric is not None
        each = -(-batch.rows // n) * llm.num_experts_per_tok * llm.hidden_size * WIDE
        sent = all_to_all(fabric, each, n)
        ps += times * self.cut.link_ps(sent)
        ends = [one for some in self.own.outside(mine) for one in some]
        end = round(ps) + sum(one.time_ps for one in ends)
        joules = self.cut.joules(end, Sent(*(times * part for part in sent)))
        macs = self.share.layers * self.cut.macs(batch) + sum(one.macs for one in ends)
        return Run(end_ps=end, spans=(), macs=macs, device_j=joules, devices=n, busy_ps={"device": end})


def _silent(op: Op) -> Talk:
    return Talk(0)


@cache
def crowding(experts: int, taken: int, devices: int, rows: int) -> tuple[float, float]:
    """What the busiest device has over its part of an even share: tokens for its experts, and experts that have tokens,
    of as many as have some in the mean."""
    random, most = np.random.default_rng([rows, devices]), np.zeros(2)
    even = np.array([rows * taken, fsum(busy_chances(rows, taken, experts, UNIFORM))]) / devices
    for _ in range(DRAWS):
        chosen = np.argsort(random.random((rows, experts)), axis=1)[:, :taken]
        counts = np.bincount(chosen.ravel(), minlength=experts).reshape(devices, -1)
        most += [counts.sum(axis=1).max(), (counts > 0).sum(axis=1).max()]
    tokens, touched = most / DRAWS / even
    return float(tokens), float(touched)


def plans(llm: LlmSpec, devices: int) -> list[Plan]:
    """All."""
    sizes = [2**i for i in range(devices.bit_length())]
    cut = [Plan(tp, pp, devices // tp // pp) for tp, pp in product(sizes, repeat=2) if tp * pp <= devices]
    apart = [Plan(n, 1, devices // n, True) for n in sizes[1:] if llm.num_experts % n == 0 and llm.num_experts > 1]
    return cut + apart


def maker(plan: Plan) -> Any:
    """What makes its devices, who send one another what they add up, or tokens to their experts."""

    def made(system: System, llm: LlmSpec, share: Share) -> Device:
        if plan.whole:
            return Experts(system, llm, share)
        return RooflineDevice(system, llm, share)

    return made


def searched(model: str, devices: int, arrivals: str) -> tuple[dict[Plan, tuple[float, float]], bool]:
    """Mean latency [s] and energy per token [J] of each plan whose weights and caches fit and whose backlog is steady,
    and True. If none is steady: those of all plans that fit, and False."""
    llm, system, trace, found = load_llm(model), load_system(GPU), read(TRACE), dict[Plan, tuple[float, float]]()
    able, rate = dict[Plan, tuple[float, float]](), parse_arrivals(arrivals).rate
    for plan in plans(llm, devices):
        wanted = Wanted(GPU, model, requests=100, arrivals=arrivals, scheduler="orca", tp=plan.tp, pp=plan.pp,
                        replicas=plan.copies, sample=0, rate=f"{rate:g}")  # fmt: skip
        try:
            served, _ = served_on(Source(lambda name, settings: system, maker(plan)), llm, wanted, trace, rate)
        except UserError:  # it does not fit
            continue
        assert served.energy_per_token_j is not None
        found[plan] = served.latency_s.mean, served.energy_per_token_j
        if served.backlog is not None and served.backlog.state == "steady":
            able[plan] = found[plan]
    return able or found, bool(able)


def apex() -> Iterator[Row]:
    """A dense model, and one with experts."""
    for model, devices, arrivals in CASES:
        began = monotonic()
        found, held = searched(model, devices, arrivals)
        took, machine = monotonic() - began, f"{model} on {devices} {GPU} with NVLink, {arrivals}"
        best, frugal = (min(found, key=lambda plan, place=place: found[plan][place]) for place in (0, 1))  # type: ignore[misc]
        said = "plans searched that fit and hold the rate" if held else "plans searched that fit; none holds the rate"
        yield row("APEX", said, len(found), "within 15 minutes", "paper",
                  digits="d", verdict=within(took, 0, SEARCH_S), tolerance="15 minutes", machine=machine,
                  basis="derived")  # fmt: skip
        rules = {
            "tensor parallelism over all": Plan(devices, 1, 1), "a copy on each": Plan(1, 1, devices),
            "expert parallelism over all": Plan(devices, 1, 1, True),
        }  # fmt: skip
        for name, plan in rules.items():
            if plan in found:
                yield row("APEX", f"latency of {name} over that of the best: {best}", found[plan][0] / found[best][0],
                          "up to 3.37", "paper", unit="×", machine=machine)  # fmt: skip
        saved = 100 * (1 - found[frugal][1] / found[best][1])
        yield row("APEX", f"energy of a token that the most frugal plan saves over the fastest: {frugal}", saved,
                  "up to 45", "paper", unit="%", machine=machine)  # fmt: skip
