"""All commands that AiM's host instructions turn into: the rows of `aim`, and those for one bank, four banks, copies,
products of elements and activation functions.

Rows appended to `gddr6`, with AiM's names (its PREA is our PREab). Rules [secondary AIM]:
arkhadem/aim_simulator@0f28a07, `src/dram/impl/GDDR6.cpp`, restated; checked against its measured cycle counts in
`tests/test_aim_golden.py`, and each against rules typed from the same words in `tests/naive_aim.py`. Waits count CK.
"""

from collections.abc import Iterable

from pimloom.arch.command import Command, Level, Role, Row, Rule, Standard
from pimloom.arch.pim import aim

CHANNEL, GROUP, BANK = Level.CHANNEL, Level.BANK_GROUP, Level.BANK
ANY, OPEN, CLOSED = Row

TIMINGS = aim.TIMINGS | {
    "tRCDMACsb": "ACT to MAC of the same bank",
    "tRCDEWMUL": "ACT to EWMUL16",
    "tRCDAF": "ACT to AF16",
    "tRCDCP": "ACT to RDCP of the same bank",
    "tRCDWRCP": "ACT to WRCP of the same bank",
    "nCLAF": "RDAF16 to first data",
    "nCCD": "column access to column access, of pins, registers or the global buffer",
    "nCCDab": "column access of all banks to any other of its direction",
    "nPREPRE": "PREab or PRE4 to PRE, and the reverse",
}

NAMES = {"ACTab": "ACT16", "MACab": "MAC16", "WRAab": "WRA16", "RDMAC": "RDMAC16", "WRMAC": "WRMAC16"}


def named(names: Iterable[str]) -> tuple[str, ...]:
    """Commands of `aim` by AiM's own names."""
    return tuple(NAMES.get(name, name) for name in names)


ONE, COPIED = "multiply-accumulate one column of one bank", "copy one column of the open row into the global buffer"
COPIED_BACK = "copy one entry of the global buffer into a column of the open row"
COMMANDS = (
    *(command._replace(name=NAMES.get(command.name, command.name)) for command in aim.COMMANDS),
    Command("ACT4", Role.ACTIVATE, GROUP, CLOSED, OPEN, "tRCDMACsb", "open the same row of a bank group"),
    Command("PRE4", Role.PRECHARGE, GROUP, ANY, CLOSED, "tRP", "close the rows of a bank group"),
    Command("MAC", Role.MULTIPLY, BANK, OPEN, ANY, "1", ONE),
    Command("EWMUL16", Role.ELEMENTWISE, CHANNEL, OPEN, ANY, "1", "multiply columns of banks, element by element"),
    Command("AF16", Role.FUNCTION, CHANNEL, OPEN, ANY, "1", "apply the activation function whose table is open"),
    Command("RDCP", Role.COPY, BANK, OPEN, ANY, "1", COPIED),
    Command("WRCP", Role.COPY_BACK, BANK, OPEN, ANY, "1", COPIED_BACK),
    Command("RDAF16", Role.RESULTS, CHANNEL, ANY, ANY, "nCLAF + nBL", "read the function's results of all banks"),
)

RD, WR = ("RD", "RDA"), ("WR", "WRA")
OUT = (*RD, "RDMAC16", "RDAF16")  # to the pins
IN = (*WR, "WRA16", "WRGB", "WRMAC16")  # from the pins
READ_ONE, READ_ALL = (*RD, "MAC", "RDCP"), ("RDMAC16", "RDAF16", "MAC16", "EWMUL16")
WRITE_ONE, WRITE_ALL = (*WR, "WRCP"), ("WRA16", "WRMAC16", "EWMUL16")
ACTS, PRES = ("ACT", "ACT4", "ACT16"), ("PRE", "PRE4", "PREab")
ROWS = (("MAC", "tRCDMACsb"), ("RDCP", "tRCDCP"), ("WRCP", "tRCDWRCP"))  # ACT of the bank to them
ROWS4 = (*ROWS, ("RD", "tRCDRD"), ("RDA", "tRCDRD"), ("WR", "tRCDWR"), ("WRA", "tRCDWR"))
WRITE_END = "nCWL + nBL + tWR"
NEW = tuple(command.name for command in COMMANDS[len(aim.COMMANDS) :])

RULES = (
    *(rule._replace(after=named(rule.after), before=named(rule.before)) for rule in aim.RULES),
    # the data pins, and what is shared between and within bank groups
    Rule(CHANNEL, OUT, ("RDAF16",), "nBL"),
    Rule(CHANNEL, ("RDAF16",), (*RD, "RDMAC16"), "nBL"),
    Rule(CHANNEL, (*OUT, "MAC", "MAC16", "RDCP"), (*OUT, "MAC", "MAC16", "RDCP"), "nCCD"),
    Rule(CHANNEL, (*IN, "WRCP"), (*IN, "WRCP"), "nCCD"),
    Rule(CHANNEL, READ_ONE, READ_ALL, "nCCDab"),
    Rule(CHANNEL, READ_ALL, READ_ONE + READ_ALL, "nCCDab"),
    Rule(CHANNEL, WRITE_ONE, WRITE_ALL, "nCCDab"),
    Rule(CHANNEL, WRITE_ALL, WRITE_ONE + WRITE_ALL, "nCCDab"),
    Rule(GROUP, READ_ONE, ("MAC", "RDCP"), "tCCD_L"),
    Rule(GROUP, ("MAC", "RDCP"), RD, "tCCD_L"),
    Rule(GROUP, WRITE_ONE, ("WRCP",), "tCCD_L"),
    Rule(GROUP, ("WRCP",), WR, "tCCD_L"),
    # turn-around of the pins
    Rule(CHANNEL, ("RDAF16",), ("WRGB",), "nRTWREG + nCLAF - nCLREG"),
    Rule(CHANNEL, ("RDAF16",), ("WRMAC16",), "nRTWREG + nCLAF - nCLREG + nCWLGB - nCWLREG"),
    Rule(CHANNEL, ("RDAF16",), (*WR, "WRA16"), "nRTWREG + nCLAF - nCLREG + nCWLGB - nCWL"),
    Rule(CHANNEL, (*WR, "WRA16"), ("RDAF16",), "nCWL + nBL + tWTR_L"),
    Rule(CHANNEL, ("WRGB",), ("RDAF16",), "nCWLGB + nBL + tWTR_S"),
    Rule(CHANNEL, ("WRMAC16",), ("RDAF16",), "nCWLREG + nBL + tWTR_L"),
    # column commands and the end of their row
    Rule(CHANNEL, ("RDCP", "MAC", "AF16", "EWMUL16"), ("PREab",), "tRTP"),
    Rule(CHANNEL, ("AF16", "EWMUL16"), ("PRE", "PRE4"), "tRTP"),
    Rule(CHANNEL, ("MAC16",), ("PRE4",), "tRTP"),
    Rule(CHANNEL, ("WRCP",), ("PREab",), WRITE_END),
    Rule(CHANNEL, ("EWMUL16",), PRES, "nCWL + tWR"),
    Rule(GROUP, ("RD", "RDCP", "MAC"), ("PRE4",), "tRTP"),
    Rule(GROUP, ("WR", "WRCP"), ("PRE4",), WRITE_END),
    Rule(BANK, ("RDCP", "MAC"), ("PRE",), "tRTP"),
    Rule(BANK, ("WRCP",), ("PRE",), WRITE_END),
    # a row and the column commands behind it
    Rule(CHANNEL, ACTS, ("EWMUL16",), "tRCDEWMUL"),
    Rule(CHANNEL, ACTS, ("AF16",), "tRCDAF"),
    Rule(CHANNEL, ("ACT4",), ("MAC16",), "tRCDMAC"),
    Rule(CHANNEL, ("ACT4",), ("WRA16",), "tRCDWR"),
    *(Rule(CHANNEL, ("ACT16",), (name,), wait) for name, wait in ROWS),
    *(Rule(GROUP, ("ACT4",), (name,), wait) for name, wait in ROWS4),
    *(Rule(BANK, ("ACT",), (name,), wait) for name, wait in ROWS),
    # row to row
    Rule(CHANNEL, ("ACT", "ACT4"), ("ACT4",), "tRRD_S"),
    Rule(CHANNEL, ("ACT4",), ("ACT",), "tRRD_S"),
    Rule(GROUP, ("ACT", "ACT4"), ("ACT4",), "tRRD_L"),
    Rule(GROUP, ("ACT4",), ("ACT",), "tRRD_L"),
    Rule(CHANNEL, ("ACT16",), ("ACT4",), "tRC"),
    Rule(CHANNEL, ("ACT4",), ("ACT16",), "tRC"),
    Rule(GROUP, ("ACT",), ("ACT4",), "tRC"),
    Rule(GROUP, ("ACT4",), ("ACT", "ACT4"), "tRC"),
    Rule(CHANNEL, ("ACT4",), ("PREab",), "tRAS"),
    Rule(CHANNEL, ("ACT16",), ("PRE4",), "tRAS"),
    Rule(GROUP, ("ACT",), ("PRE4",), "tRAS"),
    Rule(GROUP, ("ACT4",), ("PRE", "PRE4"), "tRAS"),
    Rule(CHANNEL, ("PRE4",), ("ACT16",), "tRP"),
    Rule(CHANNEL, ("PREab",), ("ACT4",), "tRP"),
    Rule(GROUP, ("PRE",), ("ACT4",), "tRP"),
    Rule(GROUP, ("PRE4",), ("ACT", "ACT4"), "tRP"),
    Rule(CHANNEL, ("PREab", "PRE4"), PRES, "nPREPRE"),
    Rule(CHANNEL, ("PRE",), ("PREab", "PRE4"), "nPREPRE"),
    Rule(GROUP, ("RDA",), ("ACT4",), "tRTP + tRP"),
    Rule(GROUP, ("WRA",), ("ACT4",), f"{WRITE_END} + tRP"),
    Rule(CHANNEL, ("WRA16",), ("ACT4",), f"{WRITE_END} + tRP"),
    # refresh and mode
    Rule(CHANNEL, ("ACT4",), ("REFab",), "tRC"),
    Rule(CHANNEL, ("PRE4",), ("REFab",), "tRP"),
    Rule(CHANNEL, ("REFab",), NEW, "tRFC"),
    Rule(CHANNEL, ("TMOD",), NEW, "nMODCH"),
)

STANDARD = Standard(
    "aim_isr",
    TIMINGS,
    COMMANDS,
    RULES,
    unmodelled=(
        "tFAW and tRRD do not count ACT16: AiM supplies the current for sixteen banks [secondary AIM]",
        "WR and WRMAC16 to MAC16, MAC16 to WRMAC16, AF16 to RDAF16, RDCP to writes, WRCP to reads: the AiM simulator "
        "has no such rule [secondary AIM]",
    ),
)
