"""GDDR6 SGRAM (JEDEC JESD250): one channel of 16 data pins, four bank groups of four banks.

Rules as in JESD250 and its public restatements (DRAMsim3, Ramulator 2.1); checked against their command traces
in `tests/test_reference_traces.py`. Waits count CK.
"""

from pimloom.arch.command import Command, Level, Row, Rule, Standard

CHANNEL, GROUP, BANK = Level.CHANNEL, Level.BANK_GROUP, Level.BANK

TIMINGS = {
    "nBL": "clocks one burst of a column access holds the data bus",
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
    "tFAW": "window in which at most four ACT may issue",
    "tWTR_S": "end of write data to RD, other bank group",
    "tWTR_L": "end of write data to RD, same bank group",
    "tPPD": "PRE to PRE, any two banks",
    "tRFC": "REFab to any command",
    "tREFI": "average interval of REFab",
}

COMMANDS = (
    Command("ACT", Level.BANK, Row.CLOSED, Row.OPEN, "tRCDRD", "open a row of one bank"),
    Command("PRE", Level.BANK, Row.ANY, Row.CLOSED, "tRP", "close the row of one bank"),
    Command("PREab", Level.CHANNEL, Row.ANY, Row.CLOSED, "tRP", "close the rows of all banks"),
    Command("RD", Level.BANK, Row.OPEN, Row.ANY, "nCL + nBL", "read one column of the open row"),
    Command("WR", Level.BANK, Row.OPEN, Row.ANY, "nCWL + nBL + tWR", "write one column of the open row"),
    Command("RDA", Level.BANK, Row.OPEN, Row.CLOSED, "nCL + nBL", "RD, then close the row"),
    Command("WRA", Level.BANK, Row.OPEN, Row.CLOSED, "nCWL + nBL + tWR + tRP", "WR, then close the row"),
    Command("REFab", Level.CHANNEL, Row.CLOSED, Row.ANY, "tRFC", "refresh all banks"),
)

READS, WRITES = ("RD", "RDA"), ("WR", "WRA")
ALL = tuple(c.name for c in COMMANDS)

RULES = (
    # data bus and column path
    Rule(CHANNEL, READS, READS, "nBL"),
    Rule(CHANNEL, WRITES, WRITES, "nBL"),
    Rule(CHANNEL, READS, READS, "tCCD_S"),
    Rule(CHANNEL, WRITES, WRITES, "tCCD_S"),
    Rule(GROUP, READS, READS, "tCCD_L"),
    Rule(GROUP, WRITES, WRITES, "tCCD_L"),
    Rule(CHANNEL, READS, WRITES, "nRTW"),
    Rule(CHANNEL, WRITES, READS, "nCWL + nBL + tWTR_S"),
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
    # between banks
    Rule(CHANNEL, ("ACT",), ("ACT",), "tRRD_S"),
    Rule(GROUP, ("ACT",), ("ACT",), "tRRD_L"),
    Rule(CHANNEL, ("ACT",), ("ACT",), "tFAW", window=4),
    Rule(CHANNEL, ("PRE", "PREab"), ("PRE", "PREab"), "tPPD"),
    # all banks
    Rule(CHANNEL, ("ACT",), ("PREab",), "tRAS"),
    Rule(CHANNEL, ("RD",), ("PREab",), "tRTP"),
    Rule(CHANNEL, ("WR",), ("PREab",), "nCWL + nBL + tWR"),
    Rule(CHANNEL, ("PREab",), ("ACT",), "tRP"),
    Rule(CHANNEL, ("ACT",), ("REFab",), "tRC"),
    Rule(CHANNEL, ("PRE", "PREab"), ("REFab",), "tRP"),
    Rule(CHANNEL, ("RDA",), ("REFab",), "tRTP + tRP"),
    Rule(CHANNEL, ("WRA",), ("REFab",), "nCWL + nBL + tWR + tRP"),
    Rule(CHANNEL, ("REFab",), ALL, "tRFC"),
)

STANDARD = Standard(
    "gddr6",
    TIMINGS,
    COMMANDS,
    RULES,
    unmodelled=(
        "REFpb, REFp2b: refresh is all-bank here",
        "RDA and WRA wait for tRAS before they close the row: a part with tRCD + tRTP < tRAS must not use them early",
        "power-down, self-refresh, MRS, WCK training, masked writes (WDM, WSM): no such command here",
    ),
    refresh="REFab",
)
