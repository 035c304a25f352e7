"""Energy of a simulated layer by cause, of each stage, and of an iteration of all layers."""

from collections.abc import Mapping
from functools import reduce
from math import fsum

from pimloom.arch.error import UserError
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.table import compile_table
from pimloom.cycle_sim.npu_pim.machine import Account, Ran
from pimloom.energy.ledger import EnergyError, Ledger
from pimloom.energy.npu_pim import Standby, Work, command_pj, has_currents, memory_pj, npu_pj
from pimloom.systems.devices.npu_pim.layer import LayerProgram

Pj = dict[str, float]
NEVER = Account(0, 0, 0, {})  # before anything was done


def stage_energy(layer: LayerProgram, part: Part, ran: Ran, stages_cyc: Mapping[str, int]) -> dict[str, Pj] | None:
    """Energy of one device by stage and cause [pJ]; None if the system or its part does not say what it needs.

    Commands and standby belong to the stage whose end is noticed after them: boundaries are the clocks of the accounts,
    so that a stage has up to 128 clocks of the next one, and all stages together have every command. Work of the NPU is
    that of the stage's operators; static power is that of its own time.
    """
    system = layer.shard.system
    if system.energy is None or not has_currents(part):
        return None
    found: dict[str, Pj] = {}
    before, first = NEVER, 0
    for name, last in layer.stages.items():
        after = _latest([ran.accounts[o] for o in last])
        work = reduce(Work.plus, layer.work[first : max(last) + 1])
        found[name] = memory_energy(system, part, before, after)
        found[name] |= npu_pj(system.energy, work, stages_cyc[name] * part.tCK_ps)
        before, first = after, max(last) + 1
    return found


def _latest(accounts: list[Account]) -> Account:
    return max(accounts, key=lambda account: account.ck)


def idle_pj(system: NpuPimSystem, part: Part, clocks: int) -> Pj | None:
    """Energy by cause [pJ] of a device that waits for so many clocks: standby without an open row, as many refreshes as
    fall due on average, and static power; None as above."""
    if system.energy is None or not has_currents(part):
        return None
    table = compile_table(part)
    nodes = system.dram.channels * int(table.rules.size[table.rules.scope[table.rules.refresh]])
    found = memory_energy(system, part, NEVER, NEVER._replace(ck=clocks))
    refresh_pj = command_pj(part, system.energy.comp_reads, system.npu.element_bits)[table.refresh]
    found["refresh"] += refresh_pj * nodes * clocks / table.rules.refi
    found |= npu_pj(system.energy, Work(), clocks * part.tCK_ps)
    return {cause: pj for cause, pj in found.items() if pj}


def memory_energy(system: NpuPimSystem, part: Part, before: Account, after: Account) -> Pj:
    """Energy of the memory by cause [pJ] between two accounts."""
    assert system.energy is not None
    each = command_pj(part, system.energy.comp_reads, system.npu.element_bits)
    commands = {name: n - before.commands.get(name, 0) for name, n in after.commands.items()}
    standby = Standby(
        (after.ck - before.ck) * part.organization.ranks * system.dram.channels,
        after.mem_open_ck - before.mem_open_ck,
        after.pim_open_ck - before.pim_open_ck,
    )
    return memory_pj(part, each, commands, standby, dual=system.dram.row_buffers == "dual")


def ledger(system: str, pj: Mapping[str, float]) -> Ledger:
    """Energy by cause [pJ]. Raises UserError where a value of the system makes it none."""
    try:
        return Ledger(pj)
    except EnergyError as error:
        raise UserError(f"{system}: {error}; a value of the system is out of range") from None


def total_energy(stages: Mapping[str, Pj], times: Mapping[str, int]) -> Ledger:
    """Energy by cause of stages that are run `times` each."""
    causes = list(dict.fromkeys(cause for pj in stages.values() for cause in pj))
    return Ledger({c: fsum(pj.get(c, 0.0) * times[name] for name, pj in stages.items()) for c in causes})
