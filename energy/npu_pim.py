"""Energy of a device of an NPU and PIM channels: its memory from the part's currents, its NPU from counts of work.

Memory as NeuPIMs' simulator has it (casys-kaist/NeuPIMs@f299af3, extern/NewtonSim/src/configuration.cc, restated):
ACT, RD, WR and REFab are differences of currents; an ACT for which none is left is its row cycle above closed banks, as
in `energy.dram`. PIM commands are multiples of these that follow from the organisation: a GWRITE reads a whole row, a
G_ACT opens a row in each bank of a group, a READRES moves a result of each bank; what a COMP takes is data
(`comp_reads`). A PIM_GEMV is its COMPs and a READRES. A second row buffer has a standby of its own.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pimloom.arch.command import ON_THE_PINS, Level, Role
from pimloom.arch.memory import Currents
from pimloom.arch.npu_energy import NpuEnergy
from pimloom.arch.part import Part
from pimloom.arch.table import compile_table
from pimloom.energy.dram import NEEDED, below_standby, command_mw_ck, pj, row_cycle_mw_ck
from pimloom.energy.ledger import Ledger

CAUSES = ("activate", "read", "write", "refresh", "gwrite", "g_act", "comp", "readres")  # those of the part's commands
FAR = 0.25  # DDR4, HBM2 and GDDR6 as shipped leave 0.47 of a row cycle or more


class Work(NamedTuple):
    """What an NPU did: multiply-accumulates, operations of vector lanes, bytes into and out of its scratchpads."""

    macs: int = 0
    vector_ops: int = 0
    pad_bytes: int = 0

    def plus(self, other: "Work") -> "Work":
        """Both."""
        return Work(*map(int.__add__, self, other))


class Standby(NamedTuple):
    """Clocks of all ranks of all channels: in all, with a row open in the MEM, in the PIM row buffer [CK]."""

    rank_ck: int
    mem_open_ck: int
    pim_open_ck: int


def has_currents(part: Part) -> bool:
    """Whether the part gives all currents that energy needs."""
    return all(name in part.current for name in NEEDED)


def no_activate(part: Part) -> str | None:
    """Why the currents leave no energy for an ACT, which is then at its upper bound; None if they do.

    G_ACT is a multiple of it, and for a bound of that nobody vouches.
    """
    if not has_currents(part):
        return None
    return below_standby(Currents(part.VDD, part.current, 1.0), _clocks(part))


def activate_note(part: Part) -> str | None:
    """What to tell of an ACT whose difference of currents is below FAR of its whole row cycle; None if it is not."""
    if not has_currents(part):
        return None
    most = row_cycle_mw_ck(Currents(part.VDD, part.current, 1.0), _clocks(part))
    if (charged := _base_mw_ck(part)["activate"]) < FAR * most:
        both = f"{pj(charged, part.tCK_ps):.4g} pJ, the row cycle of IDD0 above IDD2N {pj(most, part.tCK_ps):.4g} pJ"
        return f"an ACT is charged {both}: of IDD0 of {part.current['IDD0']:g} mA little is left above standby"
    why = no_activate(part)
    return why and f"an ACT is charged {pj(charged, part.tCK_ps):.4g} pJ, IDD0 - IDD2N for tRC, an upper bound: {why}"


def command_pj(part: Part, comp_reads: float, element_bits: int) -> dict[str, float]:
    """Energy above standby [pJ] of one command of one channel, by name, as above; of one that repeats others without
    those."""
    org, base, table = part.organization, _base_mw_ck(part), compile_table(part)
    act, read = pj(base["activate"], part.tCK_ps), pj(base["read"], part.tCK_ps)
    found = {}
    for c in table.counted:
        match c.role:
            case Role.ACTIVATE:
                found[c.name] = act * int(table.rules.size[Level.BANK] // table.rules.size[c.scope])
            case Role.COPY:
                found[c.name] = read * org.columns
            case Role.MULTIPLY:
                found[c.name] = read * comp_reads
            case Role.RESULTS | Role.GEMV:
                found[c.name] = read * element_bits * org.banks / org.access_bits
            case _ if c.cause in base:
                found[c.name] = pj(base[c.cause], part.tCK_ps)
    return found


def memory_pj(
    part: Part, each: Mapping[str, float], commands: Mapping[str, int], standby: Standby, *, dual: bool
) -> dict[str, float]:
    """Energy of the memory by cause [pJ].

    each: of `command_pj`; commands: how many of each issued, by name, and of those that others repeat; dual: there is a
    second row buffer. `interface` is that of the data pins, 0 where the part gives no energy of a bit.
    """
    table = compile_table(part)
    there = {c.cause for c in table.counted if c.name in each}
    found = {cause: 0.0 for cause in CAUSES if cause in there}
    for c in table.counted:
        if c.name in each:
            found[c.cause] = found.get(c.cause, 0.0) + each[c.name] * commands.get(c.name, 0)
    if part.io_pj_per_bit:
        found["interface"] = part.io_pj_per_bit * part.organization.access_bits * table.total(commands, ON_THE_PINS)
    found["background"] = _standby_pj(part, standby.rank_ck, standby.mem_open_ck)
    if dual:
        found["second_row_buffer"] = _standby_pj(part, standby.rank_ck, standby.pim_open_ck)
    return Ledger(found).pj


def _base_mw_ck(part: Part) -> dict[str, float]:
    """Energy of one command above standby [mW × CK]; an ACT as above."""
    return command_mw_ck(Currents(part.VDD, part.current, 1.0), _clocks(part))


def _clocks(part: Part) -> dict[str, int]:
    return {name: part.cycles(name) for name in ("tRC", "tRAS", "tRP", "nBL", "tRFC")}


def _standby_pj(part: Part, rank_ck: int, open_ck: int) -> float:
    idd = part.current
    return pj(part.VDD * (idd["IDD3N"] * open_ck + idd["IDD2N"] * (rank_ck - open_ck)), part.tCK_ps)


def npu_pj(energy: NpuEnergy, work: Work, time_ps: int) -> dict[str, float]:
    """Energy of the NPU by cause [pJ] for its work, and for `time_ps` of existence (1 W for 1 ps is 1 pJ)."""
    found = {
        "npu_mac": energy.pj_per_mac * energy.logic_scale * work.macs,
        "npu_vector": energy.pj_per_vector_op * energy.logic_scale * work.vector_ops,
        "npu_scratchpad": energy.pj_per_sram_byte * energy.logic_scale * work.pad_bytes,
        "npu_static": energy.static_w * time_ps,
    }
    return Ledger(found).pj
