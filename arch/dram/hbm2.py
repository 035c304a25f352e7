"""HBM2 (JEDEC JESD235) in pseudo-channel mode: two pseudo channels share a row and a column command bus.

ACT holds the row bus for two clocks; its issue clock here is the second, from which JEDEC counts. Rules checked
against public command traces in `tests/test_reference_traces.py`. Waits count CK.
"""

from pimloom.arch.command import Command, Level, Row, Rule, Standard

CHANNEL, PCH, GROUP, BANK = Level.CHANNEL, Level.PSEUDO_CHANNEL, Level.BANK_GROUP, Level.BANK

TIMINGS = {
    "nBL": "clocks one burst of a column access holds the data bus of its pseudo channel",
    "nCL": "read latency: RD to first data",
    "nCWL": "write latency: WR to first data",
    "nRTW": "RD to WR, data bus turn-around",
    "tRCDRD": "ACT to RD of the same bank",
    "tRCDWR": "ACT to WR of the same bank",
    "tRP": "PRE to ACT of the same bank",
    "tRAS": "ACT to PRE of the same bank",
    "tRC": "ACT to ACT of the same bank",
    "tWR": "end of write data to PRE of the same bank (write recovery)",
    "tRTP": "RD to PRE of the same bank",
    "tCCD_S": "column access to column access, other bank group",
    "tCCD_L": "column access to column access, same bank group",
    "tRRD_S": "ACT to ACT, other bank group",
    "tRRD_L": "ACT to ACT, same bank group",
    "tFAW": "window in which at most four ACT of a pseudo channel may issue",
    "tWTR_S": "end of write data to RD, other bank group",
    "tWTR_L": "end of write data to RD, same bank group",
    "tRFC": "REFab to any command of the pseudo channel",
    "tREFI": "average interval of REFab",
}

COMMANDS = (
    Command("ACT", Level.BANK, Row.CLOSED, Row.OPEN, "tRCDRD", "open a row of one bank", bus="row"),
    Command("PRE", Level.BANK, Row.ANY, Row.CLOSED, "tRP", "close the row of one bank", bus="row"),
    Command("PREab", Level.PSEUDO_CHANNEL, Row.ANY, Row.CLOSED, "tRP", "close all rows of a pseudo channel", bus="row"),
    Command("RD", Level.BANK, Row.OPEN, Row.ANY, "nCL + nBL", "read one column of the open row", bus="column"),
    Command("WR", Level.BANK, Row.OPEN, Row.ANY, "nCWL + nBL + tWR", "write one column of the open row", bus="column"),
    Command("RDA", Level.BANK, Row.OPEN, Row.CLOSED, "nCL + nBL", "RD, then close the row", bus="column"),
    Command("WRA", Level.BANK, Row.OPEN, Row.CLOSED, "nCWL + nBL + tWR + tRP", "WR, then close the row", bus="column"),
    Command("REFab", Level.PSEUDO_CHANNEL, Row.CLOSED, Row.ANY, "tRFC", "refresh a pseudo channel", bus="row"),
)

READS, WRITES = ("RD", "RDA"), ("WR", "WRA")
ROW_BUS = tuple(c.name for c in COMMANDS if c.bus == "row")
ALL = tuple(c.name for c in COMMANDS)

RULES = (
    Rule(CHANNEL, ROW_BUS, ("ACT",), "2"),  # JESD235: ACT is a two-clock command
    # data bus and column path of a pseudo channel
    Rule(PCH, READS, READS, "nBL"),
    Rule(PCH, WRITES, WRITES, "nBL"),
    Rule(PCH, READS, READS, "tCCD_S"),
    Rule(PCH, WRITES, WRITES, "tCCD_S"),
    Rule(GROUP, READS, READS, "tCCD_L"),
    Rule(GROUP, WRITES, WRITES, "tCCD_L"),
    Rule(PCH, READS, WRITES, "nRTW"),
    Rule(PCH, WRITES, READS, "nCWL + nBL + tWTR_S"),
    Rule(GROUP, WRITES, READS, "nCWL + nBL + tWTR_L"),
    # a bank's own row cycle
    Rule(BANK, ("ACT",), READS, "tRCDRD"),
    Rule(BANK, ("ACT",), WRITES, "tRCDWR"),
    Rule(BANK, ("ACT",), ("PRE",), "tRAS"),
    Rule(BANK, ("ACT",), ("ACT",), "tRC"),
    Rule(BANK, ("PRE",), ("ACT",), "tRP"),
    Rule(BANK, ("RD",), ("PRE",), "tRTP"),
    Rule(BANK, ("WR",), ("PRE",), "nCWL + nBL + tWR"),
    Rule(BANK, ("RDA",), ("ACT",), "tRTP + tRP"),
    Rule(BANK, ("WRA",), ("ACT",), "nCWL + nBL + tWR + tRP"),
    # between banks of a pseudo channel
    Rule(PCH, ("ACT",), ("ACT",), "tRRD_S"),
    Rule(GROUP, ("ACT",), ("ACT",), "tRRD_L"),
    Rule(PCH, ("ACT",), ("ACT",), "tFAW", window=4),
    # all banks of a pseudo channel
    Rule(PCH, ("ACT",), ("PREab",), "tRAS"),
    Rule(PCH, ("RD",), ("PREab",), "tRTP"),
    Rule(PCH, ("WR",), ("PREab",), "nCWL + nBL + tWR"),
    Rule(PCH, ("PREab",), ("ACT",), "tRP"),
    Rule(PCH, ("ACT",), ("REFab",), "tRC"),
    Rule(PCH, ("PRE", "PREab"), ("REFab",), "tRP"),
    Rule(PCH, ("RDA",), ("REFab",), "tRTP + tRP"),
    Rule(PCH, ("WRA",), ("REFab",), "nCWL + nBL + tWR + tRP"),
    Rule(PCH, ("REFab",), ALL, "tRFC"),
)

STANDARD = Standard(
    "hbm2",
    TIMINGS,
    COMMANDS,
    RULES,
    unmodelled=(
        "REFSB (single-bank refresh): refresh is all-bank here",
        "RDA and WRA wait for tRAS before they close the row: a part with tRCD + tRTP < tRAS must not use them early",
        "legacy mode, power-down, self-refresh, MRS: no such command here",
    ),
    refresh="REFab",
)
