"""Energy of PIM channels and their ASIC, from DRAM currents and command counts (specification, section 4).

State currents: all commands on top of active standby, since IDD0 < IDD3N here makes the textbook activation term
negative. All-bank commands are charged `k_act` activations and `k_rd` reads; single-bank commands one.
"""

from collections.abc import Mapping

from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.system import EnergyMode
from pimloom.arch.units import PJ_PER_MW_PS
from pimloom.energy.ledger import Ledger

CURRENTS = ("IDD0", "IDD3N", "IDD4R", "IDD4W", "IDD5B")
ON_THE_PINS = ("RD", "RDA", "WR", "WRA", "WRAab", "WRGB", "WRMAC", "RDMAC")


def command_energy_pj(part: Part, mode: EnergyMode) -> dict[str, dict[str, float]]:
    """Energy of one command on one channel: command -> cause -> pJ. Raises UserError if the part has no currents."""
    if missing := [name for name in CURRENTS if name not in part.current]:
        raise UserError(f"this part gives no {missing[0]}: energy needs {', '.join(CURRENTS)}")
    if mode.interface and not part.io_pj_per_bit:
        raise UserError("dram.io_pj_per_bit is 0: to leave interface energy out, set energy.interface to false")

    def pj(milliwatt: float, *times: str) -> float:
        return milliwatt * sum(part.cycles(name) for name in times) * part.tCK_ps * PJ_PER_MW_PS

    power = {name: part.VDD * part.current[name] for name in CURRENTS}
    read, write = power["IDD4R"] - power["IDD3N"], power["IDD4W"] - power["IDD3N"]
    table: dict[str, dict[str, float]] = {
        "ACT": {"activate": pj(power["IDD0"], "tRCDRD", "tRP")},
        "RD": {"read": pj(read, "nBL")},
        "WR": {"write": pj(write, "nBL")},
        "REFab": {"refresh": pj(power["IDD5B"] - power["IDD3N"], "tRFC")},
    }
    table |= {"RDA": table["RD"], "WRA": table["WR"]}
    if part.pim_unit:
        table |= {
            "ACTab": {"activate": mode.k_act * pj(power["IDD0"], "tRCDMAC", "tRP")},
            "MACab": {
                "read": mode.k_rd * pj(read, "tCCD_L"),
                "mac": pj(part.pim_unit.mac_power_mw, "tCCD_L"),
            },
            "WRAab": {"write": pj(write, "nBL")},
        }
    burst_pj = part.io_pj_per_bit * part.organization.access_bits if mode.interface else 0.0
    return {
        name: table.get(name, {}) | ({"interface": burst_pj} if name in ON_THE_PINS and mode.interface else {})
        for name in (*table, *ON_THE_PINS)
    }


def pim_energy(
    part: Part, mode: EnergyMode, counts: Mapping[str, int], time_ps: int, channels: int, asic_mw: float
) -> Ledger:
    """Energy of a run by cause.

    counts: commands of all channels, REFab included. time_ps: duration, for standby of all channels and for the ASIC.
    """
    standby_mw = part.VDD * part.current.get("IDD3N", 0.0) * channels
    pj = {"background": standby_mw * time_ps * PJ_PER_MW_PS}
    for command, causes in command_energy_pj(part, mode).items():
        for cause, each in causes.items():
            pj[cause] = pj.get(cause, 0.0) + each * counts.get(command, 0)
    return Ledger(pj | {"asic": asic_mw * time_ps * PJ_PER_MW_PS})
