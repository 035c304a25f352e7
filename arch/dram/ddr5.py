"""DDR5 SDRAM (JEDEC JESD79-5): one subchannel of 32 data pins, its ranks of eight bank groups of four banks (x4, x8).

A DIMM has two such subchannels; each is a channel here. ACT, RD, WR, RDA and WRA hold the command bus for two clocks;
their issue clock here is the second, as Ramulator 2.1 counts. WR to WR of a bank group has a distance of its own
(tCCD_L_WR). Waits count CK.
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Rule, Standard

RANK = Level.RANK
COMMANDS = (*dram.commands(RANK), *dram.self_refresh_commands(RANK))
TWO_CLOCKS = ("ACT", *dram.READS, *dram.WRITES)
PRECHARGES = ("PRE", "PREab")

STANDARD = Standard(
    "ddr5",
    dram.TIMINGS | dram.RANKS | {"tCCD_L_WR": "WR to WR, same bank group", "tPPD": "PRE to PRE, any two banks"},
    COMMANDS,
    (
        *dram.rules(RANK, write_gap="tCCD_L_WR"),
        *dram.rank_rules(),
        *dram.self_refresh_rules(RANK),
        Rule(RANK, PRECHARGES, PRECHARGES, "tPPD"),
        Rule(Level.CHANNEL, tuple(command.name for command in COMMANDS), TWO_CLOCKS, "2"),
    ),
    unmodelled=(
        *dram.UNMODELLED_WITH_SELF_REFRESH,
        "REFsb (same-bank refresh) and PREsb: they act on one bank of every bank group, a scope that is no level here",
        "RFM and directed RFM: no such command here",
        "fine granularity refresh and the temperature ranges of tREFI: one tRFC, one tREFI",
        "BC8 and BL32, write CRC: every burst is BL16",
        "2N command timing: one-clock commands take one clock of the bus, the others two",
        "tCCD_M and the other timings between three kinds of neighbours of 3D stacks: no such level here",
    ),
    refresh="REFab",
    optional=dram.SELF_REFRESH,
    postponed=4,  # [recalled] JESD79-5: four in normal refresh mode, so five tREFI without one
)
