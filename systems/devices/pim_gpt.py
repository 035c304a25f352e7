"""PIM-GPT as a device: one request, token by token, on PIM channels and their ASIC."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from pimloom.arch.command import ON_THE_PINS, Role
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.program import PimStep, Step
from pimloom.arch.system import PimSystem, System
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, ceil_div, mhz_to_ps
from pimloom.cycle_sim.asic import latency_cyc
from pimloom.cycle_sim.machine import Machine, command_counts
from pimloom.cycle_sim.runs import Known, Watch
from pimloom.energy.ledger import EnergyError
from pimloom.energy.pim import CURRENTS, pim_energy
from pimloom.mappers.decode import Decoder
from pimloom.mappers.geometry import geometry
from pimloom.mappers.plan import check_shape, max_tokens, plan
from pimloom.systems.devices.device import Capacity, Share, without
from pimloom.systems.devices.run import Run, Span
from pimloom.workload.batch import Batch
from pimloom.workload.need import layer_macs
from pimloom.workload.op import LINKS, Op
from pimloom.workload.shard import Shard

PIM, ASIC = "PIM", "ASIC"


class PimGptDevice:
    """See `Device`. Time goes on from step to step: a refresh that falls due in one may run in the next."""

    most_requests: int | None = 1
    in_order = True
    exact_steps = 128

    def __init__(
        self, system: System, llm: LlmSpec, share: Share, *, known: Known | None = None, watch: Watch | None = None
    ) -> None:
        self.spec, self.part = system.of_kind(PimSystem), system.memory
        self.system, self.llm, self.share = system, llm, share
        if share.tp != 1 or share.layers != llm.num_hidden_layers or share.fidelity != "physical":
            raise UserError(f"{system.name}: runs all layers of a model on one device; leave --tp, --layers out")
        self.table, geo = compile_table(self.part), geometry(self.part, self.spec.dram.channels)
        head = self.spec.workload.lm_head if share.outside is None else share.outside
        check_shape(llm, geo)
        tokens = min(max_tokens(llm, geo, head), llm.max_position_embeddings) if share.tokens is None else share.tokens
        self.mapped = plan(llm, geo, max(tokens, 1), head)
        self.decoder = Decoder(self.mapped, self.table)
        self.machine = Machine(
            self.table,
            self.part.tCK_ps,
            mhz_to_ps(self.spec.npu.clock_mhz),
            partial(latency_cyc, self.spec.npu),
            refresh=self.spec.dram.refresh,
            watch=watch,
            known=known,
        )

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """One device, so nothing that devices send one another; the model is checked when the device is made."""
        return without(ops, LINKS, f"{self.system.name} is one device, it sends nothing")

    def step(self, batch: Batch) -> Run:
        """The new tokens of the one request, each like a decoded one. Raises UserError."""
        self.check(batch)
        (at,) = batch.requests
        machine, began, refreshed = self.machine, self.machine.end_ps, self.machine.refreshes
        spans, counts = list[Span](), Counter[str]()
        for t in range(at.context - at.new + 1, at.context + 1):
            for steps, times in self._parts(t, t > at.context - at.logits):
                spans += self._run(steps, times, began)
                counts += self._counts(steps, times)
        if refreshes := machine.refreshes - refreshed:
            counts[self.table.refresh] = refreshes * self.mapped.geo.channels
        run = self._step(machine.end_ps - began, spans, counts)
        head = self.mapped.head
        macs = layer_macs(self.llm, batch, Shard(), self.llm.num_hidden_layers)
        return replace(run, macs=macs + (at.logits * head.n_in * head.n_out if head else 0))

    def _parts(self, t: int, wanted: bool) -> Iterator[tuple[Sequence[Step], int]]:
        """Steps and how often they run; wanted: the token behind this one is."""
        if first := self.decoder.first_steps:
            yield first, 1
        for layer, times in self.mapped.runs:
            yield self.decoder.timed_steps(t, self.mapped.kinds[layer]), times
        if wanted and (last := self.decoder.last_steps):
            yield last, 1

    def _run(self, steps: Sequence[Step], times: int, began: int) -> Iterator[Span]:
        """Waiting for a clock edge belongs to the step that waits."""
        ends, at = np.zeros(len(steps) * times, np.int64), self.machine.end_ps - began
        self.machine.run(steps, times=times, ends_ps=ends)
        for step, end in zip([*steps] * times, (ends - began).tolist(), strict=True):
            yield Span(at, end, step.name, PIM if isinstance(step, PimStep) else ASIC)
            at = end

    def _counts(self, steps: Sequence[Step], times: int) -> Counter[str]:
        on_pim = [step for step in steps if isinstance(step, PimStep)]
        return command_counts(self.table, on_pim, [times] * len(on_pim), self.mapped.geo.channels)

    def _step(self, end_ps: int, spans: list[Span], counts: Counter[str]) -> Run:
        part, table, channels = self.part, self.table, self.mapped.geo.channels
        pins, macs = (table.total(counts, roles) for roles in (ON_THE_PINS, {Role.MULTIPLY}))
        mac_ck = int(table.rules.done[table.role(Role.MULTIPLY)])
        asic = sum(span.end_ps - span.start_ps for span in spans if span.resource == ASIC)
        return Run(
            end_ps=end_ps,
            spans=tuple(spans),
            commands=dict(counts),
            interface_bytes=pins * part.organization.access_bits // BITS_PER_BYTE,
            least_ps={
                "compute": ceil_div(macs, channels) * mac_ck * part.tCK_ps + asic,
                "memory bandwidth": ceil_div(pins * part.cycles("nBL"), channels) * part.tCK_ps,
                "commands": ceil_div(counts.total(), channels) * part.tCK_ps,
            },
            device_j=self._energy_j(counts, end_ps),
        )

    def _energy_j(self, counts: Counter[str], time_ps: int) -> dict[str, float] | None:
        if any(name not in self.part.current for name in CURRENTS):
            return None
        npu, channels = self.spec.npu, self.mapped.geo.channels
        try:
            return pim_energy(self.part, self.spec.energy, counts, time_ps, channels, npu.power_mw).joules()
        except EnergyError as error:
            raise UserError(f"{self.system.name}: {error}; a value of the system is out of range") from None

    def check(self, batch: Batch) -> None:
        """Raise UserError unless this is one request, and fits."""
        if len(batch.requests) != 1:
            raise UserError(f"{self.system.name}: runs one sequence at a time, not {len(batch.requests)}")
        if (context := batch.requests[0].context) > self.mapped.tokens:
            raise UserError(
                f"{self.system.name}: a context of {context:,} tokens, there is room for {self.mapped.tokens:,}"
            )

    def capacity(self) -> Capacity:
        """Rows that are not full count as taken."""
        geo, mapped = self.mapped.geo, self.mapped
        row_bytes = geo.row * geo.element_bytes * geo.all_banks
        each = Fraction((mapped.rows - mapped.weight_rows) * row_bytes, mapped.tokens)
        most = max_tokens(self.llm, geo, mapped.lm_head)
        return Capacity(geo.rows * row_bytes, mapped.weight_rows * row_bytes, each, most)


device = PimGptDevice
