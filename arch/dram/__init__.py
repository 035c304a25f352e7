"""What JEDEC's DRAM standards share: timings, commands and rules of banks that open a row, read, write and close it."""

from pimloom.arch.command import Command, Level, Row, Rule

GROUP, BANK = Level.BANK_GROUP, Level.BANK
READS, WRITES = ("RD", "RDA"), ("WR", "WRA")
WRITE_END = "nCWL + nBL + tWR"  # from WR to the end of write recovery

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
    "tRFC": "REFab to any command",
    "tREFI": "average interval of REFab",
}

UNMODELLED = (
    "RDA and WRA wait for tRAS before they close the row: a part with tRCD + tRTP < tRAS must not use them early",
    "power-down, self-refresh, MRS and training: no such command here",
)


def commands(scope: Level, row_bus: str = "command", column_bus: str = "command") -> tuple[Command, ...]:
    """The commands of a standard whose PREab and REFab act on `scope`."""
    return (
        Command("ACT", BANK, Row.CLOSED, Row.OPEN, "tRCDRD", "open a row of one bank", row_bus),
        Command("PRE", BANK, Row.ANY, Row.CLOSED, "tRP", "close the row of one bank", row_bus),
        Command("PREab", scope, Row.ANY, Row.CLOSED, "tRP", "close the rows of all banks", row_bus),
        Command("RD", BANK, Row.OPEN, Row.ANY, "nCL + nBL", "read one column of the open row", column_bus),
        Command("WR", BANK, Row.OPEN, Row.ANY, WRITE_END, "write one column of the open row", column_bus),
        Command("RDA", BANK, Row.OPEN, Row.CLOSED, "nCL + nBL", "RD, then close the row", column_bus),
        Command("WRA", BANK, Row.OPEN, Row.CLOSED, f"{WRITE_END} + tRP", "WR, then close the row", column_bus),
        Command("REFab", scope, Row.CLOSED, Row.ANY, "tRFC", "refresh all banks", row_bus),
    )


def rules(scope: Level) -> tuple[Rule, ...]:
    """Their rules; the banks of one node of `scope` share data bus, activation window and refresh."""
    everything = tuple(command.name for command in commands(scope))
    return (
        # data bus and column path
        Rule(scope, READS, READS, "nBL"),
        Rule(scope, WRITES, WRITES, "nBL"),
        Rule(scope, READS, READS, "tCCD_S"),
        Rule(scope, WRITES, WRITES, "tCCD_S"),
        Rule(GROUP, READS, READS, "tCCD_L"),
        Rule(GROUP, WRITES, WRITES, "tCCD_L"),
        Rule(scope, READS, WRITES, "nRTW"),
        Rule(scope, WRITES, READS, "nCWL + nBL + tWTR_S"),
        Rule(GROUP, WRITES, READS, "nCWL + nBL + tWTR_L"),
        # a bank's own row cycle
        Rule(BANK, ("ACT",), READS, "tRCDRD"),
        Rule(BANK, ("ACT",), WRITES, "tRCDWR"),
        Rule(BANK, ("ACT",), ("PRE",), "tRAS"),
        Rule(BANK, ("ACT",), ("ACT",), "tRC"),
        Rule(BANK, ("PRE",), ("ACT",), "tRP"),
        Rule(BANK, ("RD",), ("PRE",), "tRTP"),
        Rule(BANK, ("WR",), ("PRE",), WRITE_END),
        Rule(BANK, ("RDA",), ("ACT",), "tRTP + tRP"),
        Rule(BANK, ("WRA",), ("ACT",), f"{WRITE_END} + tRP"),
        # between banks
        Rule(scope, ("ACT",), ("ACT",), "tRRD_S"),
        Rule(GROUP, ("ACT",), ("ACT",), "tRRD_L"),
        Rule(scope, ("ACT",), ("ACT",), "tFAW", window=4),
        # all banks
        Rule(scope, ("ACT",), ("PREab",), "tRAS"),
        Rule(scope, ("RD",), ("PREab",), "tRTP"),
        Rule(scope, ("WR",), ("PREab",), WRITE_END),
        Rule(scope, ("PREab",), ("ACT",), "tRP"),
        Rule(scope, ("ACT",), ("REFab",), "tRC"),
        Rule(scope, ("PRE", "PREab"), ("REFab",), "tRP"),
        Rule(scope, ("RDA",), ("REFab",), "tRTP + tRP"),
        Rule(scope, ("WRA",), ("REFab",), f"{WRITE_END} + tRP"),
        Rule(scope, ("REFab",), everything, "tRFC"),
    )
