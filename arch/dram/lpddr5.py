"""LPDDR5 SDRAM (JEDEC JESD209-5) in bank-group mode: one channel of 16 data pins, four bank groups of four banks.

Waits count CK, the command clock; the data clock WCK runs four times as fast, so that a burst of 16 takes two CK.
ACT-1 and ACT-2 are one ACT here that holds the command bus for two clocks; its issue clock is the second. PREab has a
precharge time of its own (tRPab). A REFpb keeps an ACT of another bank away for tPBR2ACT and
another REFpb for tPBR2PBR; it follows an ACT of another bank after tRRD, as an ACT does (JESD209-5, Ramulator 2.1).
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Rule, Standard

RANK = Level.RANK
COMMANDS = (
    *dram.commands(RANK, precharge_all="tRPab"),
    dram.bank_refresh_command(),
    *dram.self_refresh_commands(RANK),
)
PRECHARGES = ("PRE", "PREab")

STANDARD = Standard(
    "lpddr5",
    dram.TIMINGS | dram.RANKS | {"tRPab": "PREab to ACT or REFab (PRE: tRP)", "tPPD": "PRE to PRE, any two banks"},
    COMMANDS,
    (
        *dram.rules(RANK, precharge_all="tRPab"),
        Rule(RANK, ("PREab",), ("REFab",), "tRPab"),
        *dram.rank_rules(),
        Rule(RANK, PRECHARGES, PRECHARGES, "tPPD"),
        Rule(Level.CHANNEL, tuple(command.name for command in COMMANDS), ("ACT",), "2"),
        *dram.bank_refresh_rules(RANK, precharge_all="tRPab"),
        Rule(RANK, ("ACT",), ("REFpb",), "tRRD_S"),
        Rule(RANK, ("REFpb",), ("ACT",), "tPBR2ACT"),
        Rule(RANK, ("REFpb",), ("REFpb",), "tPBR2PBR"),
        *dram.self_refresh_rules(RANK, precharge_all="tRPab"),
    ),
    unmodelled=(
        *dram.UNMODELLED_WITH_SELF_REFRESH,
        "ACT-1 and ACT-2 as two commands: they follow at once, and no other command may come between (tAAD is 8 CK)",
        "CAS and the synchronisation of WCK: the data clock always runs, and RD and WR need no command before them",
        "REFpb of a pair of banks: it refreshes one bank here, so that tREFIpb is half of JESD209-5's",
        "tFAW counts ACT alone, not REFpb: as in Ramulator",
        "8-bank and 16-bank modes, BL32: bank groups and bursts of 16 only",
        "RFM, partial array refresh, deep sleep, DVFS and temperature ranges of tREFI: no such command or mode here",
        "masked writes, data copy and Write X: no such command here",
    ),
    refresh="REFab",
    optional=dram.SELF_REFRESH
    | dram.BANK_REFRESH
    | {"tPBR2ACT": "REFpb to ACT of another bank", "tPBR2PBR": "REFpb to REFpb of another bank"},
)
