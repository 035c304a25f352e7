"""What stands before and behind the layers of a model on the devices of an NPU: embedding, LM head and sampling."""

from collections.abc import Iterable

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import System
from pimloom.arch.units import J_PER_PJ, ceil_div
from pimloom.energy.ledger import EnergyError
from pimloom.energy.npu_pim import has_currents, npu_pj
from pimloom.systems.devices.npu_pim.alone import ArraysAlone, Took, without_its_pim
from pimloom.systems.devices.npu_pim.energy import NEVER, Pj, idle_pj, ledger, memory_energy
from pimloom.systems.devices.npu_pim.exchange import exchanged
from pimloom.systems.devices.run import Run, Span, behind
from pimloom.workload.batch import Batch
from pimloom.workload.derive import outside
from pimloom.workload.op import LINKS, Bits, Op
from pimloom.workload.shard import Shard

ARRAYS, VECTORS, LINK = "systolic arrays", "vector units", "link"


class Outside:
    """One operator after the other, each on the arrays from an idle machine, as if there were no PIM."""

    def __init__(self, system: System, llm: LlmSpec, tp: int) -> None:
        self.system, self.llm, self._shard = system, llm, Shard(tp=tp)
        self._spec, self._part = system.of_kind(NpuPimSystem), system.memory
        self._arrays = ArraysAlone(without_its_pim(system), llm)

    def around(self, batch: Batch, layers: Run) -> Run:
        """A step of the layers with what stands before and behind them. Raises UserError."""
        bits = self._spec.npu.element_bits
        first, last = outside(self.llm, batch, self._shard, bits=Bits(bits, bits, bits))
        return behind([*self._runs(first), layers, *self._runs(last)])

    def _runs(self, made: Iterable[Op]) -> Iterable[Run]:
        for op in made:
            yield self._sent(op) if op.kind in LINKS else self._worked(op)

    def _worked(self, op: Op) -> Run:
        took = self._arrays.took((op,))
        return Run(
            end_ps=took.ps,
            spans=(Span(0, took.ps, op.name, ARRAYS if took.work.macs else VECTORS),),
            commands=took.commands,
            interface_bytes=took.interface_bytes,
            macs=op.macs,
            least_ps={"compute": took.compute_ps, "memory bandwidth": took.memory_ps, "commands": took.command_ps},
            device_j=self._joules(self._energy(took)),
            devices=self._shard.tp,
        )

    def _sent(self, op: Op) -> Run:
        """Devices wait for what they send one another."""
        clock_ps, tp = self._part.tCK_ps, self._shard.tp
        fabric = self._spec.fabric(tp, self.system.name)
        sent = exchanged(fabric, op)
        waits = ceil_div(sent.ps, clock_ps)
        idle = idle_pj(self._spec, self._part, waits)
        on_links = {"link": sent.pj(fabric) / tp}
        return Run(
            end_ps=waits * clock_ps,
            spans=(Span(0, waits * clock_ps, op.name, LINK),),
            link_bytes=sent.all_bytes,
            least_ps={"link": waits * clock_ps},
            device_j=self._joules(None if idle is None else idle | on_links),
            devices=tp,
        )

    def _energy(self, took: Took) -> Pj | None:
        energy, part = self._spec.energy, self._part
        if energy is None or not has_currents(part):
            return None
        try:
            return memory_energy(self._spec, part, NEVER, took.account) | npu_pj(energy, took.work, took.ps)
        except EnergyError as error:
            raise UserError(f"{self.system.name}: {error}; a value of the system is out of range") from None

    def _joules(self, pj: Pj | None) -> dict[str, float] | None:
        if pj is None:
            return None
        return {cause: each * J_PER_PJ for cause, each in ledger(self.system.name, pj).pj.items()}
