"""What JEDEC's DRAM standards share: timings, commands and rules of banks that open a row, read, write and close it."""

from pimloom.arch.command import Command, Level, Role, Row, Rule

GROUP, BANK = Level.BANK_GROUP, Level.BANK
ANY, OPEN, CLOSED = Row
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


UNMODELLED_WITH_SELF_REFRESH = (
    UNMODELLED[0],
    "power-down, MRS, calibration and training: no such command here",
    "self-refresh: no rule keeps commands other than SRX away after SRE, nor refuses an SRX without an SRE; "
    "the clock never stops and the DLL is locked again within tXS",
)

SELF_REFRESH = {
    "tCKESR": "SRE to SRX, the least time in self-refresh",
    "tXS": "SRX to ACT or refresh, the way out of self-refresh",
}
BANK_REFRESH = {
    "tRFCpb": "REFpb to ACT or refresh of the same bank",
    "tREFIpb": "average interval of REFpb, each of one bank of a rank or pseudo channel",
}
BANK_REFRESH_GAP = {"tRREFD": "REFpb to ACT or REFpb of another bank"}
STACK_IDS = {"tCCD_R": "RD to RD, other stack ID of the same pseudo channel"}  # a part of several needs it
SHARED = {"tFAW_R": "window in which at most four ACT may issue, over all ranks of a pseudo channel"}  # in no standard
RANKS = {"nRTRS": "pause of the data bus when another rank takes it over"}


def commands(
    scope: Level, row_bus: str = "command", column_bus: str = "command", precharge_all: str = "tRP"
) -> tuple[Command, ...]:
    """The commands of a standard whose PREab and REFab act on `scope`."""
    return (
        Command("ACT", Role.ACTIVATE, BANK, CLOSED, OPEN, "tRCDRD", "open a row of one bank", row_bus),
        Command("PRE", Role.PRECHARGE, BANK, ANY, CLOSED, "tRP", "close the row of one bank", row_bus),
        Command("PREab", Role.PRECHARGE, scope, ANY, CLOSED, precharge_all, "close the rows of all banks", row_bus),
        Command("RD", Role.READ, BANK, OPEN, ANY, "nCL + nBL", "read one column of the open row", column_bus),
        Command("WR", Role.WRITE, BANK, OPEN, ANY, WRITE_END, "write one column of the open row", column_bus),
        Command("RDA", Role.READ, BANK, OPEN, CLOSED, "nCL + nBL", "RD, then close the row", column_bus),
        Command("WRA", Role.WRITE, BANK, OPEN, CLOSED, f"{WRITE_END} + tRP", "WR, then close the row", column_bus),
        Command("REFab", Role.REFRESH, scope, CLOSED, ANY, "tRFC", "refresh all banks", row_bus),
    )


def rules(
    scope: Level, write_gap: str = "tCCD_L", precharge_all: str = "tRP", pins: Level | None = None
) -> tuple[Rule, ...]:
    """Their rules; the banks of one node of `scope` share activation window and refresh, those of `pins` the data bus.

    write_gap: WR to WR of a bank group; precharge_all: PREab to ACT. pins: the level of `scope`, if not another.
    """
    pins = scope if pins is None else pins
    everything = tuple(command.name for command in commands(scope))
    return (
        # data bus and column path
        Rule(pins, READS, READS, "nBL"),
        Rule(pins, WRITES, WRITES, "nBL"),
        Rule(pins, READS, READS, "tCCD_S"),
        Rule(pins, WRITES, WRITES, "tCCD_S"),
        Rule(GROUP, READS, READS, "tCCD_L"),
        Rule(GROUP, WRITES, WRITES, write_gap),
        Rule(pins, READS, WRITES, "nRTW"),
        Rule(pins, WRITES, READS, "nCWL + nBL + tWTR_S"),
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
        Rule(scope, ("PREab",), ("ACT",), precharge_all),
        Rule(scope, ("ACT",), ("REFab",), "tRC"),
        Rule(scope, ("PRE", "PREab"), ("REFab",), "tRP"),
        Rule(scope, ("RDA",), ("REFab",), "tRTP + tRP"),
        Rule(scope, ("WRA",), ("REFab",), f"{WRITE_END} + tRP"),
        Rule(scope, ("REFab",), everything, "tRFC"),
    )


def rank_rules(write_gap: str = "nBL + nRTRS") -> tuple[Rule, ...]:
    """The ranks of a channel share its data pins: no two bursts at once, and a pause where the rank changes.

    write_gap: WR of one rank to WR of another.
    """
    return (
        Rule(Level.RANK, READS, READS, "nBL + nRTRS", sibling=True),
        Rule(Level.RANK, READS, WRITES, "nCL + nBL + nRTRS - nCWL", sibling=True),
        Rule(Level.RANK, WRITES, READS, "nCWL + nBL + nRTRS - nCL", sibling=True),
        Rule(Level.RANK, WRITES, WRITES, write_gap, sibling=True),
    )


def bank_refresh_command(row_bus: str = "command") -> Command:
    """REFpb, on the bus of row commands."""
    cause = "refresh_bank"
    return Command("REFpb", Role.REFRESH, BANK, CLOSED, ANY, "tRFCpb", "refresh one bank", row_bus, charged_to=cause)


def bank_refresh_rules(scope: Level, precharge_all: str = "tRP") -> tuple[Rule, ...]:
    """REFpb between the commands of its bank and of all banks; its distance from other banks is each standard's own."""
    return (
        Rule(BANK, ("ACT",), ("REFpb",), "tRC"),
        Rule(BANK, ("PRE",), ("REFpb",), "tRP"),
        Rule(BANK, ("RDA",), ("REFpb",), "tRTP + tRP"),
        Rule(BANK, ("WRA",), ("REFpb",), f"{WRITE_END} + tRP"),
        Rule(scope, ("PREab",), ("REFpb",), precharge_all),
        Rule(BANK, ("REFpb",), ("ACT", "REFpb"), "tRFCpb"),
        Rule(scope, ("REFpb",), ("REFab", "SRE"), "tRFCpb"),
        Rule(scope, ("REFab",), ("REFpb",), "tRFC"),
        Rule(scope, ("SRX",), ("REFpb",), "tXS"),
    )


def self_refresh_commands(scope: Level, row_bus: str = "command") -> tuple[Command, ...]:
    """SRE and SRX of a node of `scope`, on the bus of row commands."""
    return (
        Command("SRE", Role.SLEEP, scope, CLOSED, ANY, "tCKESR", "enter self-refresh", row_bus),
        Command("SRX", Role.WAKE, scope, CLOSED, ANY, "tXS", "leave self-refresh", row_bus),
    )


def self_refresh_rules(scope: Level, precharge_all: str = "tRP") -> tuple[Rule, ...]:
    """SRE waits like REFab; SRX ends what it began."""
    return (
        Rule(scope, ("ACT",), ("SRE",), "tRC"),
        Rule(scope, ("PRE",), ("SRE",), "tRP"),
        Rule(scope, ("PREab",), ("SRE",), precharge_all),
        Rule(scope, ("RDA",), ("SRE",), "tRTP + tRP"),
        Rule(scope, ("WRA",), ("SRE",), f"{WRITE_END} + tRP"),
        Rule(scope, ("REFab",), ("SRE",), "tRFC"),
        Rule(scope, ("SRE",), ("SRX",), "tCKESR"),
        Rule(scope, ("SRX",), ("ACT", "REFab", "SRE"), "tXS"),
    )
