"""The fields of energy of a trace, and what the user must know about them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pimloom.arch.command import ON_THE_PINS, Level
from pimloom.arch.error import UserError
from pimloom.arch.memory import Memory
from pimloom.arch.units import PJ_PER_MW_PS
from pimloom.cycle_sim.memory.channel import Tally
from pimloom.energy.dram import channel_pj, contradiction, doubt, dramsim3_mw_ck, missing_current
from pimloom.energy.ledger import EnergyError, Ledger

FIELDS = ("energy_pj", "energy_by_cause_pj", "energy_mw_cycles", "power_mw")


def _of_ranks(memory: Memory, commands: Mapping[str, int]) -> dict[str, int]:
    """How often each command was carried out in a rank, of which some have several: currents are of one."""
    names, rules = memory.table.names, memory.table.rules
    ranks = int(rules.size[Level.RANK])
    wide = {name: ranks // min(ranks, int(rules.size[rules.scope[names.index(name)]])) for name in commands}
    return {name: n * wide[name] for name, n in commands.items()}


def energies(memory: Memory, tallies: Sequence[Tally], cycles: int) -> tuple[dict[str, Any], list[str]]:
    """FIELDS of all channels over `cycles`, and warnings: why there is none, or what is doubtful.

    Under dramsim3 energy_mw_cycles is that tool's total, which may have terms below zero; the others never have.
    Raises UserError where an energy is more than a number can hold.
    """
    found: dict[str, Any] = dict.fromkeys(FIELDS)
    currents = memory.currents
    if currents is None:
        return found, []
    issued = Counter[str]()
    for tally in tallies:
        issued += memory.table.by_cause(_of_ranks(memory, tally.commands))
    rank_ck = [rank for t in tallies for rank in t.rank_ck]
    if name := missing_current(currents, issued, rank_ck):
        return found, [f"no energy: this device gives no {name}"]
    remarks = []
    if memory.policy.quirks == "dramsim3":
        theirs = dramsim3_mw_ck(currents, memory.clocks, issued, rank_ck)
        found["energy_mw_cycles"] = sum(theirs.values())
        negative = [cause for cause, value in theirs.items() if value < 0]
        remarks = [f"energy_mw_cycles is DRAMsim3's: its {cause} is below zero" for cause in negative]
    if why := contradiction(currents, issued):
        return found, [*remarks, why]
    if issued["activate"] and (said := doubt(currents, memory.clocks)):
        remarks.append(said)
    try:
        ledger = channel_pj(currents, memory.clocks, issued, rank_ck, memory.tCK_ps)
    except EnergyError as error:
        raise UserError(f"{memory.name}: {error}; VDD or a current is out of range") from None
    if memory.interface_pj:
        accesses = sum(memory.table.total(tally.commands, ON_THE_PINS) for tally in tallies)
        ledger = Ledger(ledger.pj | {"interface": memory.interface_pj * accesses})
    found |= {"energy_pj": ledger.total_pj, "energy_by_cause_pj": ledger.pj}
    if cycles:
        found["power_mw"] = ledger.total_pj / PJ_PER_MW_PS / (cycles * memory.tCK_ps)
    return found, remarks
