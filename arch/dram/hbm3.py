"""HBM3 (JEDEC JESD238): two pseudo channels of 32 data pins share a row and a column command bus; 16 banks each.

A stack has 16 such channels. ACT holds the row bus for two clocks; its issue clock here is the second, as in hbm2.
Rules as in Ramulator 2.1, which alone among the public models has them. Waits count CK; a burst of 8 takes two.
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Rule, Standard

PCH = Level.PSEUDO_CHANNEL
COMMANDS = (
    *dram.commands(PCH, row_bus="row", column_bus="column"),
    dram.bank_refresh_command("row"),
    *dram.self_refresh_commands(PCH, "row"),
)
ROW_BUS = tuple(command.name for command in COMMANDS if command.bus == "row")

STANDARD = Standard(
    "hbm3",
    dram.TIMINGS | {"tPPD": "PRE to PRE, any two banks"},
    COMMANDS,
    (
        Rule(Level.CHANNEL, ROW_BUS, ("ACT",), "2"),
        *dram.rules(PCH),
        Rule(PCH, ("PRE",), ("PRE",), "tPPD"),
        *dram.bank_refresh_rules(PCH),
        Rule(PCH, ("ACT",), ("REFpb",), "tRRD_S"),
        Rule(PCH, ("REFpb",), ("ACT", "REFpb"), "tRREFD"),
        *dram.self_refresh_rules(PCH),
    ),
    unmodelled=(
        *dram.UNMODELLED_WITH_SELF_REFRESH,
        "half clocks of the row bus: ACT takes 1.5 CK and the others 0.5 CK in JESD238, two and one here",
        "stack IDs and their timings (tCCD_R): 16 banks a pseudo channel, no such level here",
        "tFAW counts ACT alone, not REFpb: as in Ramulator",
        "self-refresh is entered by one pseudo channel here, not by the whole channel",
        "RFM and the temperature ranges of tREFI: no such command, one tREFI",
        "ECC, DBI and parity latencies: every latency is plain",
    ),
    refresh="REFab",
    optional=dram.SELF_REFRESH | dram.BANK_REFRESH | dram.BANK_REFRESH_GAP,
)
