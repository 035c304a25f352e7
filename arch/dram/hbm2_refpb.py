"""HBM2 (JEDEC JESD235) with single-bank refresh (REFSB, here REFpb) and self-refresh: hbm2, and these rows behind it.

REFpb keeps tRREFD from other banks and follows an ACT after tRRD_S, as in Ramulator 2.1. Waits count CK.
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Rule, Standard
from pimloom.arch.dram import hbm2

PCH = Level.PSEUDO_CHANNEL

STANDARD = Standard(
    "hbm2_refpb",
    hbm2.STANDARD.timings,
    (*hbm2.STANDARD.commands, dram.bank_refresh_command("row"), *dram.self_refresh_commands(PCH, "row")),
    (
        *hbm2.STANDARD.rules,
        Rule(Level.CHANNEL, ("REFpb", "SRE", "SRX"), ("ACT",), "2"),
        *dram.bank_refresh_rules(PCH),
        Rule(PCH, ("ACT",), ("REFpb",), "tRRD_S"),
        Rule(PCH, ("REFpb",), ("ACT", "REFpb"), "tRREFD"),
        *dram.self_refresh_rules(PCH),
    ),
    unmodelled=(
        *dram.UNMODELLED_WITH_SELF_REFRESH,
        "tFAW counts ACT alone, not REFpb: as in Ramulator",
        "self-refresh is entered by one pseudo channel here; JESD235's CKE is the channel's",
        "stack IDs and legacy mode: 16 banks a pseudo channel, two pseudo channels",
    ),
    refresh="REFab",
    optional=dram.SELF_REFRESH | dram.BANK_REFRESH | dram.BANK_REFRESH_GAP,
)
