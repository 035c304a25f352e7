"""GDDR6 SGRAM (JEDEC JESD250) with per-bank refresh and self-refresh: the rows of gddr6, and these behind them.

REFpb counts like an ACT for tRRD_L and tFAW, as in Ramulator 2.1. Waits count CK.
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Rule, Standard
from pimloom.arch.dram import gddr6

CHANNEL = Level.CHANNEL

STANDARD = Standard(
    "gddr6_refpb",
    gddr6.STANDARD.timings,
    (*gddr6.STANDARD.commands, dram.bank_refresh_command(), *dram.self_refresh_commands(CHANNEL)),
    (
        *gddr6.STANDARD.rules,
        *dram.bank_refresh_rules(CHANNEL),
        Rule(CHANNEL, ("ACT",), ("REFpb",), "tRRD_L"),
        Rule(CHANNEL, ("ACT",), ("REFpb",), "tFAW", window=4),
        Rule(CHANNEL, ("REFpb",), ("ACT", "REFpb"), "tFAW", window=4),
        Rule(CHANNEL, ("REFpb",), ("ACT", "REFpb"), "tRREFD"),
        *dram.self_refresh_rules(CHANNEL),
    ),
    unmodelled=(
        *dram.UNMODELLED_WITH_SELF_REFRESH,
        "tFAW counts four ACT or four REFpb, not a mixture: as in Ramulator",
        "REFp2b: one bank at a time",
        "WCK clocking and masked writes (WDM, WSM): no such command here",
    ),
    refresh="REFab",
    optional=dram.SELF_REFRESH | dram.BANK_REFRESH | dram.BANK_REFRESH_GAP,
)
