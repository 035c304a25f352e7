"""A composed system at work: operators priced on their units, and scheduled as the overlap has it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import fsum
from typing import cast

from pimloom.arch.composition import PEERS, REFRESH, STANDBY, ComposedSystem
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import BITS_PER_BYTE, J_PER_PJ, PJ_PER_MW_PS, S_PER_PS
from pimloom.systems.devices.composed.flow import Flow, Work, joined
from pimloom.systems.devices.composed.nodes import Node, Plan, phase_of, units_of
from pimloom.systems.devices.composed.placement import (
    SAMPLES,
    check_fits,
    first_layers,
    home_of,
    memory_bytes,
    weights,
)
from pimloom.systems.devices.composed.price import unit_of
from pimloom.systems.devices.composed.timeline import schedule
from pimloom.systems.devices.device import Capacity, Share
from pimloom.systems.devices.run import Run, Span, covered_ps
from pimloom.systems.devices.without_energy import without_standby
from pimloom.workload.batch import Batch, Request
from pimloom.workload.derive import in_order, ops
from pimloom.workload.need import ONE, layer_need
from pimloom.workload.op import LINKS, Bits, Op
from pimloom.workload.shard import Shard


class Machine:
    """See `Device`. Of a step its phase decides where operators run; embedding, LM head and sampling are in it, unless
    the share leaves them out."""

    most_requests: int | None = None
    in_order = False
    exact_steps = 96

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        self.system, self.llm, self.share = system, llm, share
        self.spec = system.of_kind(ComposedSystem)
        if share.fidelity != "physical":
            raise UserError(f"--fidelity {share.fidelity}: {system.name} is composed, no simulator of it was published")
        self._shard = Shard(tp=share.tp)
        made = {phase: self.ops(SAMPLES[phase]) for phase in self.spec.runs}
        if share.tp > 1 and self.spec.peers is None:
            raise UserError(f"--tp {share.tp}: {system.name} has no key peers, the link to the next device; add one")
        self.units = {name: unit_of(system, unit.type, name, llm) for name, unit in self.spec.units.items()}
        for phase, found in made.items():
            if why := self._refused(phase, found):
                raise UserError(why)
        self.home = home_of(system, self.spec, made)
        self.weight_bytes = weights(self.spec, made)
        self._plans = {phase: Plan(self.spec, self.units, phase) for phase in self.spec.runs}

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """Every kind of operator needs a unit in each phase; that is checked when the device is made."""
        return next((why for phase in self.spec.runs if (why := self._refused(phase, ops))), None)

    def step(self, batch: Batch) -> Run:
        """Raises UserError."""
        self.check_phase(phase_of(batch))
        self.check(batch)
        parts = [Batch(part) for part in dealt(batch.requests, self.spec.how.sub_batches)]
        return self._scheduled(batch, [self.ops(part) for part in parts])

    def run(self, batch: Batch, made: Sequence[Op]) -> Run:
        """Some operators of a batch by themselves."""
        return self._scheduled(batch, [made])

    def check(self, batch: Batch) -> None:
        """Raise UserError unless weights, and the keys and values of these requests, fit."""
        bits = self.spec.element_bits
        cache = layer_need(self.llm, batch, self._shard, self.share.layers).cache * bits // BITS_PER_BYTE
        check_fits(self.system, self.spec, self.llm, self.weight_bytes, self.home, cache)

    def check_phase(self, phase: str) -> None:
        """Raise UserError for a phase that the system does not run."""
        if phase not in self.spec.runs:
            raise UserError(f"{self.system.where('runs')}: a step of {phase}, and runs has no {phase}; add it")

    def _scheduled(self, batch: Batch, parts: Sequence[Sequence[Op]]) -> Run:
        flows = [self._flow(phase_of(batch), made, i) for i, made in enumerate(parts)]
        macs = sum(op.macs * op.times for made in parts for op in made)
        return self._run(joined(flows, self.spec.overlap == "serial"), macs)

    def capacity(self) -> Capacity:
        """Of all memories; tokens: of that of keys and values."""
        there = {name: memory_bytes(self.system, self.spec, name) for name in self.spec.memories}
        bits = self.spec.element_bits
        each = layer_need(self.llm, ONE, self._shard, self.share.layers).cache * bits // BITS_PER_BYTE
        room = max(there[self.home] - self.weight_bytes[self.home], 0)
        return Capacity(sum(there.values()), sum(self.weight_bytes.values()), each, room // each)

    def ops(self, batch: Batch) -> list[Op]:
        """The operators of a step, those of equal layers once."""
        bits = self.spec.element_bits
        every = ops(self.llm, batch, self._shard, routing=self.spec.routing, bits=Bits(bits, bits, bits))
        made = first_layers(every, self.share.layers)
        return [op for op in made if op.layers or self.share.outside]

    def _refused(self, phase: str, found: Sequence[Op]) -> str | None:
        """Why an operator cannot run in a phase; None if all can."""
        for op in found:
            names = units_of(self.spec, phase, op)
            if not names:
                known = ", ".join(self.spec.runs[phase]) or "none"
                return (
                    f"{self.system.where(f'runs.{phase}')}: no unit for {op.kind} ({op.name}), there are {known}; add "
                    f"{op.kind} or all"
                )
            for name in names if op.kind not in LINKS else ():
                if why := self.units[name].refuses(op):
                    return f"{self.system.where(f'runs.{phase}')}: {name} cannot run {op.kind} ({op.name}): {why}"
        return None

    def _flow(self, phase: str, made: Sequence[Op], part: int) -> list[Work]:
        where = self.system.where("links" if self.spec.links else "memories")
        flow = Flow(self.spec, where, self.home, part, self.share.tp, [])
        known = dict[tuple[int, ...], list[Node]]()
        for layer, group in groupby(in_order(made), lambda one: one[0]):
            found = [op for _, op in group]
            key = found[0].layers
            if layer is None or key not in known:
                known[key] = list(self._plans[phase].nodes(found))
            flow.add(known[key])
        return flow.work

    def _run(self, work: Sequence[Work], macs: int) -> Run:
        tasks = [one.task for one in work]
        starts = schedule(tasks)
        commands: Counter[str] = Counter()
        for one in work:
            commands.update(one.price.commands)
        spans = sorted(
            Span(at, at + one.task.ps, one.name, one.task.resource)
            for at, one in zip(starts, work, strict=True)
            if one.task.ps
        )
        inside = sum(one.link_bytes for one in work if one.link != PEERS)
        end_ps = max((at + task.ps + task.lag_ps for at, task in zip(starts, tasks, strict=True)), default=0)
        return Run(
            end_ps=end_ps,
            spans=tuple(spans),
            commands=dict(commands),
            interface_bytes=sum(one.price.interface_bytes for one in work),
            link_bytes=self.share.tp * inside + sum(one.link_bytes for one in work if one.link == PEERS),
            macs=macs,
            least_ps=_least_ps(work),
            device_j=self._energy_j(work, spans, end_ps),
            devices=self.share.tp,
        )

    def _energy_j(self, work: Sequence[Work], spans: Sequence[Span], end_ps: int) -> dict[str, float] | None:
        """Of units the power while they work, of memories and links the bits, and the standby of memories whose parts
        give its currents; None if one that works gives none."""
        found: dict[str, list[float]] = {}
        for one in work:
            name, unit = one.task.resource, self.spec.units.get(one.task.resource)
            if one.link:
                wire = self.spec.peers if one.link == PEERS else self.spec.links[one.link]
                each, count = (
                    wire.pj_per_bit if wire else None,
                    one.link_bytes / (self.share.tp if one.link == PEERS else 1),
                )
                if each is None:
                    return None
                found.setdefault(one.link, []).append(count * BITS_PER_BYTE * each * J_PER_PJ)
                continue
            if unit is None or not one.price.ps:
                continue
            each = self.spec.memories[unit.memory].pj_per_bit
            if unit.power_w is None or each is None:
                return None
            found.setdefault(name, []).append(unit.power_w * (one.price.ps * S_PER_PS))
            found.setdefault(unit.memory, []).append(one.price.interface_bytes * BITS_PER_BYTE * each * J_PER_PJ)
        found |= self._at_rest_j(spans, end_ps)
        return {name: fsum(joules) for name, joules in found.items()}

    def _at_rest_j(self, spans: Sequence[Span], end_ps: int) -> dict[str, list[float]]:
        """Standby and refresh of all chips of each memory whose part gives the currents. Rows count as open while a
        unit of the memory works, else as closed; refresh takes its average rate, as it does of the time."""
        found: dict[str, list[float]] = {}
        memories = {name: unit.memory for name, unit in self.spec.units.items()}
        for memory, part in self.system.parts.items():
            if without_standby(part):
                continue
            chips = self.spec.memories[memory].channels * part.chips  # type: ignore[union-attr]
            idd, j_per_ma_ps = part.current, chips * part.VDD * PJ_PER_MW_PS * J_PER_PJ
            open_ps = covered_ps(span[:2] for span in spans if memories.get(span.resource) == memory)
            standby = idd["IDD3N"] * open_ps + idd["IDD2N"] * (end_ps - open_ps)
            found.setdefault(STANDBY, []).append(j_per_ma_ps * standby)
            if "IDD5B" in idd:
                refresh_ps = end_ps * part.cycles("tRFC") / part.cycles("tREFI")
                found.setdefault(REFRESH, []).append(j_per_ma_ps * (idd["IDD5B"] - idd["IDD3N"]) * refresh_ps)
        return found


def _least_ps(work: Sequence[Work]) -> Mapping[str, int]:
    """Of each kind of work that of the resource that has most of it."""
    most: dict[str, int] = {}
    for limit, field in (("compute", 3), ("memory bandwidth", 4), ("commands", 5), ("launches", 6)):
        total: Counter[str] = Counter()
        for one in work:
            total[one.task.resource] += cast(int, one.price[field])
        most[limit] = max(total.values(), default=0)
    links: Counter[str] = Counter()
    for one in work:
        links[one.task.resource] += one.task.ps if one.link else 0
    return most | {"link": max(links.values(), default=0)}


def dealt(requests: Sequence[Request], parts: int) -> list[tuple[Request, ...]]:
    """Requests in so many parts, or as many as there are requests: the longest contexts first, each to the part with
    the least context."""
    found: list[list[Request]] = [[] for _ in range(min(parts, len(requests)))]
    for at in sorted(requests, key=lambda at: -at.context):
        min(found, key=lambda part: (sum(one.context for one in part), len(part))).append(at)
    return [tuple(part) for part in found]
