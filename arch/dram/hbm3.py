"""HBM3 (JEDEC JESD238): two pseudo channels of 32 data pins share a row and a column command bus.

A stack has 16 such channels. Each four dies of it have a stack ID (SID) of their own, 16 banks in each pseudo channel,
which is the rank here: AttAcc's simulator (scale-snu/attacc_simulator@c1540de, of JESD238A) counts tRRD and tFAW by
stack ID, and bank groups of another one like others of the same. A RD after an RD of another stack ID takes tCCD_R
[recalled JESD238: tCCDR]. ACT holds the row bus for two clocks; its issue clock here is the second, as in hbm2.
Rules as in Ramulator 2.1, which alone among the public models has them. Waits count CK; a burst of 8 takes two.
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Rule, Standard

PCH, SID = Level.PSEUDO_CHANNEL, Level.RANK
COMMANDS = (
    *dram.commands(SID, row_bus="row", column_bus="column"),
    dram.bank_refresh_command("row"),
    *dram.self_refresh_commands(SID, "row"),
)
ROW_BUS = tuple(command.name for command in COMMANDS if command.bus == "row")

STANDARD = Standard(
    "hbm3",
    dram.TIMINGS | {"tPPD": "PRE to PRE, any two banks"},
    COMMANDS,
    (
        Rule(Level.CHANNEL, ROW_BUS, ("ACT",), "2"),
        *dram.rules(SID, pins=PCH),
        Rule(SID, dram.READS, dram.READS, "tCCD_R", sibling=True),
        Rule(PCH, ("PRE",), ("PRE",), "tPPD"),
        *dram.bank_refresh_rules(SID),
        Rule(SID, ("ACT",), ("REFpb",), "tRRD_S"),
        Rule(SID, ("REFpb",), ("ACT", "REFpb"), "tRREFD"),
        *dram.self_refresh_rules(SID),
    ),
    unmodelled=(
        *dram.UNMODELLED_WITH_SELF_REFRESH,
        "half clocks of the row bus: ACT takes 1.5 CK and the others 0.5 CK in JESD238, two and one here",
        "other timings between stack IDs than tCCD_R: WR to WR, RD to WR and WR to RD are those of other bank groups",
        "PREab, REFab and REFpb keep nothing from other stack IDs: no public rule read",
        "tFAW counts ACT alone, not REFpb: as in Ramulator",
        "self-refresh is entered by one stack ID of a pseudo channel here, not by the whole channel",
        "RFM and the temperature ranges of tREFI: no such command, one tREFI",
        "ECC, DBI and parity latencies: every latency is plain",
    ),
    refresh="REFab",
    optional=dram.SELF_REFRESH | dram.BANK_REFRESH | dram.BANK_REFRESH_GAP | dram.STACK_IDS,
)
