"""Energy of PIM channels and their ASIC, from DRAM currents and command counts (specification, section 4).

State currents: all commands on top of active standby, since IDD0 < IDD3N here makes the textbook activation term
negative. All-bank commands are charged `k_act` activations and `k_rd` reads; single-bank commands one.
"""

from collections.abc import Iterator, Mapping

from pimloom.arch.command import ON_THE_PINS, Command, Level, Role
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.pim_system import EnergyMode
from pimloom.arch.standard import clocks
from pimloom.arch.table import compile_table
from pimloom.arch.units import PJ_PER_MW_PS
from pimloom.energy.ledger import Ledger

CURRENTS = ("IDD0", "IDD3N", "IDD4R", "IDD4W", "IDD5B")
UNCHARGED = ("", "refresh_bank")  # PIM-GPT's controller refreshes all banks at once


def command_energy_pj(part: Part, mode: EnergyMode) -> dict[str, dict[str, float]]:
    """Energy of one command on one channel: command -> cause -> pJ. Raises UserError if the part has no currents."""
    if missing := [name for name in CURRENTS if name not in part.current]:
        raise UserError(f"this part gives no {missing[0]}: energy needs {', '.join(CURRENTS)}")
    if mode.interface and not part.io_pj_per_bit:
        raise UserError("dram.io_pj_per_bit is 0: to leave interface energy out, set energy.interface to false")

    power = {name: part.chips * part.VDD * part.current[name] for name in CURRENTS}
    milliwatt = {
        "activate": power["IDD0"],
        "read": power["IDD4R"] - power["IDD3N"],
        "write": power["IDD4W"] - power["IDD3N"],
        "refresh": power["IDD5B"] - power["IDD3N"],
    }
    commands = compile_table(part).commands
    if unknown := [c for c in commands if c.cause not in (*milliwatt, *UNCHARGED)]:
        said = f"{unknown[0].name} is charged to {unknown[0].cause}, for which there is no current"
        raise UserError(f"{said}; known are {', '.join(milliwatt)}")
    timing = {name: part.cycles(name) for name in part.timing}
    return {c.name: dict(_charges(part, mode, c, milliwatt, timing)) for c in commands}


def _charges(
    part: Part, mode: EnergyMode, command: Command, milliwatt: Mapping[str, float], timing: Mapping[str, int]
) -> Iterator[tuple[str, float]]:
    """Cause and energy [pJ] of one command; an activation pays for its precharge, a burst draws while it lasts."""
    ck = timing["nBL"]
    if command.role in (Role.ACTIVATE, Role.MULTIPLY, Role.REFRESH):
        ck = clocks(command.done, timing)
    if command.role is Role.ACTIVATE:
        ck += timing["tRP"]
    if command.cause in milliwatt:
        all_banks = mode.k_rd if command.role is Role.MULTIPLY else mode.k_act if command.role is Role.ACTIVATE else 1
        each = all_banks if command.scope < Level.BANK else 1
        yield command.cause, each * _pj(part, milliwatt[command.cause], ck)
    if command.role is Role.MULTIPLY and part.pim_unit:
        yield "mac", _pj(part, part.pim_unit.mac_power_mw, ck)
    if command.role in ON_THE_PINS and mode.interface:
        yield "interface", part.io_pj_per_bit * part.organization.access_bits


def _pj(part: Part, milliwatt: float, ck: int) -> float:
    return milliwatt * ck * part.tCK_ps * PJ_PER_MW_PS


def rest_mw(part: Part, channels: int) -> float:
    """Power of channels that wait [mW]: precharged standby, or active standby where the part gives no other."""
    current = part.current
    return part.chips * part.VDD * current.get("IDD2N", current.get("IDD3N", 0.0)) * channels


def pim_energy(
    part: Part, mode: EnergyMode, counts: Mapping[str, int], time_ps: int, channels: int, asic_mw: float
) -> Ledger:
    """Energy of a run by cause.

    counts: commands of all channels, REFab included. time_ps: duration, for standby of all channels and for the ASIC.
    """
    standby_mw = part.chips * part.VDD * part.current.get("IDD3N", 0.0) * channels
    pj = {"background": standby_mw * time_ps * PJ_PER_MW_PS}
    for command, causes in command_energy_pj(part, mode).items():
        for cause, each in causes.items():
            pj[cause] = pj.get(cause, 0.0) + each * counts.get(command, 0)
    return Ledger(pj | {"asic": asic_mw * time_ps * PJ_PER_MW_PS})
