"""Energy of a DRAM channel from its currents: commands on top of standby, as data sheets and DRAMsim3 have it.

An ACT stands for a row cycle, ACT and PRE; standby is charged per rank and clock by whether a row is open. The unit
inside is mW × CK, DRAMsim3's own (it prints it as pJ, which is right only where tCK is 1 ns).
"""

from collections.abc import Mapping, Sequence

from pimloom.arch.memory import Currents
from pimloom.arch.units import PJ_PER_MW_PS

NEEDED = ("IDD0", "IDD2N", "IDD3N", "IDD4R", "IDD4W", "IDD5B")


def command_mw_ck(currents: Currents, clocks: Mapping[str, int]) -> dict[str, float]:
    """Energy of one command above standby [mW × CK]: IDD5PB and IDD6 where given."""
    i, watt = currents.idd, currents.vdd * currents.devices
    row = i["IDD0"] * clocks["tRC"] - (i["IDD3N"] * clocks["tRAS"] + i["IDD2N"] * clocks["tRP"])
    found = {
        "activate": watt * row,
        "read": watt * (i["IDD4R"] - i["IDD3N"]) * clocks["nBL"],
        "write": watt * (i["IDD4W"] - i["IDD3N"]) * clocks["nBL"],
        "refresh": watt * (i["IDD5B"] - i["IDD3N"]) * clocks["tRFC"],
    }
    if "IDD5PB" in i and "tRFCpb" in clocks:
        found["refresh_bank"] = watt * (i["IDD5PB"] - i["IDD3N"]) * clocks["tRFCpb"]
    return found


def channel_mw_ck(
    currents: Currents,
    clocks: Mapping[str, int],
    commands: Mapping[str, int],
    rank_ck: Sequence[tuple[int, int, int]],
) -> dict[str, float] | None:
    """Energy of one channel by cause [mW × CK]; None where the device gives too few currents.

    commands: how many of each issued. rank_ck: per rank, clocks with a row open, with all closed, in self-refresh.
    """
    if any(name not in currents.idd for name in NEEDED):
        return None
    each = command_mw_ck(currents, clocks)
    if commands.get("REFpb") and "refresh_bank" not in each:
        return None
    if any(asleep for _, _, asleep in rank_ck) and "IDD6" not in currents.idd:
        return None
    count = {
        "activate": commands.get("ACT", 0),
        "read": commands.get("RD", 0) + commands.get("RDA", 0),
        "write": commands.get("WR", 0) + commands.get("WRA", 0),
        "refresh": commands.get("REFab", 0),
        "refresh_bank": commands.get("REFpb", 0),
    }
    watt, idd = currents.vdd * currents.devices, currents.idd
    standby = [sum(rank[state] for rank in rank_ck) for state in range(3)]
    return {cause: each.get(cause, 0.0) * n for cause, n in count.items()} | {
        "active_standby": watt * idd["IDD3N"] * standby[0],
        "precharge_standby": watt * idd["IDD2N"] * standby[1],
        "self_refresh": watt * idd.get("IDD6", 0.0) * standby[2],
    }


def pj(mw_ck: float, tCK_ps: int) -> float:
    """mW × CK as pJ."""
    return mw_ck * tCK_ps * PJ_PER_MW_PS
