"""Energy of DRAM channels from their currents: commands on top of standby, as data sheets and DRAMsim3 have it.

An ACT stands for a row cycle, ACT and PRE; standby is charged per rank and clock by whether a row is open. The unit
inside is mW × CK, DRAMsim3's own (it prints it as pJ, which is right only where tCK is 1 ns).

The row cycle behind IDD0 opens one bank, IDD3N is measured with all of them open [recalled: JESD79-4, IDD measurement
conditions]. So the usual difference IDD0 tRC - IDD3N tRAS - IDD2N tRP, with which such a loop costs just IDD0, takes
the standby of all banks from it: in DDR5, where a rank has 32, it is below zero. An ACT is then charged what IDD0 takes
above IDD2N for tRC: its standby is at least that, so this is an upper bound. Between the two the user is warned.
"""

from collections.abc import Mapping, Sequence

from pimloom.arch.currents import contradictions
from pimloom.arch.memory import Currents
from pimloom.arch.units import PJ_PER_MW_PS
from pimloom.energy.ledger import Ledger

SMALL = 0.25  # share of the upper bound below which a difference of currents is doubted [design]
NEEDED = ("IDD0", "IDD2N", "IDD3N", "IDD4R", "IDD4W", "IDD5B")
CAUSES = ("activate", "read", "write", "refresh", "refresh_bank")
Issued = Mapping[str, int]  # how many commands were charged to each cause
RankClocks = Sequence[tuple[int, int, int]]  # per rank, clocks with a row open, with all closed, in self-refresh


def differences_mw_ck(currents: Currents, clocks: Mapping[str, int]) -> dict[str, float]:
    """Energy of one command [mW × CK] as a difference of currents, below zero where these do not fit each other."""
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


def command_mw_ck(currents: Currents, clocks: Mapping[str, int]) -> dict[str, float]:
    """Energy of one command above standby [mW × CK]: IDD5PB where given; an ACT as above."""
    found = differences_mw_ck(currents, clocks)
    return found if found["activate"] >= 0 else found | {"activate": row_cycle_mw_ck(currents, clocks)}


def row_cycle_mw_ck(currents: Currents, clocks: Mapping[str, int]) -> float:
    """Energy of a row cycle above that of closed banks [mW × CK]."""
    return currents.vdd * currents.devices * (currents.idd["IDD0"] - currents.idd["IDD2N"]) * clocks["tRC"]


def below_standby(currents: Currents, clocks: Mapping[str, int]) -> str | None:
    """Which currents leave nothing of a row cycle for its ACT; None if something is left."""
    if differences_mw_ck(currents, clocks)["activate"] >= 0:
        return None
    i, cycle = currents.idd, clocks["tRC"]
    standby = (i["IDD3N"] * clocks["tRAS"] + i["IDD2N"] * clocks["tRP"]) / cycle
    return f"IDD0 of {i['IDD0']:g} mA is less than the {standby:.4g} mA of IDD3N for tRAS and IDD2N for tRP"


def doubt(currents: Currents, clocks: Mapping[str, int]) -> str | None:
    """What the user must know of the energy of an ACT; None if its difference of currents is no small one."""
    if why := below_standby(currents, clocks):
        return f"energy of activate is an upper bound, IDD0 - IDD2N for tRC: {why}, of all banks open"
    left, most = differences_mw_ck(currents, clocks)["activate"], row_cycle_mw_ck(currents, clocks)
    if left >= most * SMALL:
        return None
    return (
        f"energy of activate is {left / most:.1%} of its upper bound, IDD0 - IDD2N for tRC: what is left of IDD0 of "
        f"{currents.idd['IDD0']:g} mA above IDD3N for tRAS and IDD2N for tRP hangs on their last digits"
    )


def missing_current(currents: Currents, issued: Issued, rank_ck: RankClocks) -> str | None:
    """A current that the energy of a run needs and the device does not give."""
    needed = dict.fromkeys(NEEDED, True)
    needed |= {"IDD5PB": issued.get("refresh_bank", 0) > 0, "IDD6": any(asleep for _, _, asleep in rank_ck)}
    return next((name for name, used in needed.items() if used and name not in currents.idd), None)


def contradiction(currents: Currents, issued: Issued) -> str | None:
    """Why a run has no energy: a current is not above the standby that it includes. IDD5PB counts if a bank alone was
    refreshed."""
    idd = currents.idd
    for name, below, why in contradictions(idd):
        if name != "IDD5PB" or issued.get("refresh_bank"):
            return f"no energy: {name} of {idd[name]:g} mA is not above {below} of {idd[below]:g} mA: {why}"
    return None


def channel_pj(
    currents: Currents, clocks: Mapping[str, int], issued: Issued, rank_ck: RankClocks, tCK_ps: int
) -> Ledger:
    """Energy of channels by cause; none of `missing_current` and `contradiction` may have found anything."""
    each = command_mw_ck(currents, clocks)
    found = {cause: n * each[cause] if (n := issued.get(cause, 0)) else 0.0 for cause in CAUSES}
    return Ledger({cause: pj(value, tCK_ps) for cause, value in (found | _standby(currents, rank_ck)).items()})


def dramsim3_mw_ck(
    currents: Currents, clocks: Mapping[str, int], issued: Issued, rank_ck: RankClocks
) -> dict[str, float]:
    """Energy of channels by cause as DRAMsim3 adds it up [mW × CK]: differences, below zero or not."""
    each = differences_mw_ck(currents, clocks)
    return {cause: each.get(cause, 0.0) * issued.get(cause, 0) for cause in CAUSES} | _standby(currents, rank_ck)


def pj(mw_ck: float, tCK_ps: int) -> float:
    """mW × CK as pJ."""
    return mw_ck * tCK_ps * PJ_PER_MW_PS


def _standby(currents: Currents, rank_ck: RankClocks) -> dict[str, float]:
    watt, idd = currents.vdd * currents.devices, currents.idd
    active, precharged, asleep = (sum(rank[state] for rank in rank_ck) for state in range(3))
    return {
        "active_standby": watt * idd["IDD3N"] * active,
        "precharge_standby": watt * idd["IDD2N"] * precharged,
        "self_refresh": watt * idd.get("IDD6", 0.0) * asleep,
    }
