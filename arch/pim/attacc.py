"""AttAcc (ASPLOS 2024): HBM3 stacks that compute attention, with GEMV units at banks, bank groups or the buffer die.

Rows appended to `hbm3`; rules and presets as in the authors' simulator [secondary A]
(scale-snu/attacc_simulator@c600051, `HBM3-PIM.cpp`), restated. Its PREA keeps its name: it closes the whole channel,
hbm3's PREab one stack ID. Three placements, three sets of commands: AB acts on all banks of the channel, SB on one bank
of every bank group, PB on one bank of both pseudo channels. A command of SB or PB names one of its banks and is kept
there: name always that of the first pseudo channel, for SB of the first group of the first stack ID. Moves and SFM have
a data path of their own, so that they overlap MACs. Waits count CK.
"""

from pimloom.arch import dram
from pimloom.arch.command import Command, Level, Role, Row, Rule, Standard
from pimloom.arch.dram import hbm3

CHANNEL, PCH, SID, GROUP, BANK = Level
ANY, OPEN, CLOSED = Row

TIMINGS = {
    "nCCDAB": "MACAB to MACAB",
    "nCCDSB": "MACSB to MACSB",
}

ACTS, MACS = ("ACTAB", "ACTSB", "ACTPB"), ("MACAB", "MACSB", "MACPB")
PRES = ("PREA", "PRESB", "PREPB")


def _row_and_columns(kind: str, scope: Level, banks: str) -> tuple[Command, ...]:
    """The ACT and MAC of a placement."""
    return (
        Command(f"ACT{kind}", Role.ACTIVATE, scope, CLOSED, OPEN, "tRCDRD", f"open the same row of {banks}", "row"),
        Command(f"MAC{kind}", Role.MULTIPLY, scope, OPEN, ANY, "1", f"multiply and accumulate in {banks}", "column"),
    )


def _precharge(name: str, scope: Level, banks: str) -> Command:
    return Command(name, Role.PRECHARGE, scope, ANY, CLOSED, "tRP", f"close the rows of {banks}", "row")


SAME, BOTH = "one bank of every bank group", "one bank of both pseudo channels"
COMMANDS = (
    *_row_and_columns("AB", CHANNEL, "all banks of the channel"),
    _precharge("PREA", CHANNEL, "all banks of the channel"),
    *_row_and_columns("SB", BANK, SAME),
    _precharge("PRESB", BANK, SAME),
    *_row_and_columns("PB", BANK, BOTH),
    _precharge("PREPB", BANK, BOTH),
    Command("WRGB", Role.LOAD, BANK, ANY, ANY, "1", "write an entry of the GEMV buffers", "column"),
    Command("MVSB", Role.MOVE, BANK, ANY, ANY, "1", "move accumulators to the softmax buffer", "column"),
    Command("MVGB", Role.MOVE, BANK, ANY, ANY, "1", "move probabilities to the GEMV buffers", "column"),
    Command("SFM", Role.FUNCTION, BANK, ANY, ANY, "1", "take the softmax of a head", "column"),
)
DATA = ("WRGB", "MVSB", "MVGB", "SFM", *dram.READS, *dram.WRITES)
ROW_BUS = (*hbm3.ROW_BUS, *(command.name for command in COMMANDS if command.bus == "row"))


def _row_cycle(kind: str, precharge: str, level: Level) -> tuple[Rule, ...]:
    """What hbm3's banks keep, of the banks that a command acts on together."""
    act, mac = (f"ACT{kind}",), (f"MAC{kind}",)
    return (
        Rule(level, act, act, "tRC"),
        Rule(level, act, mac, "tRCDRD"),
        Rule(level, act, (precharge,), "tRAS"),
        Rule(level, mac, (precharge,), "tRTP"),
        Rule(level, (precharge,), act, "tRP"),
    )


RULES = (
    Rule(CHANNEL, ACTS, ROW_BUS, "2"),
    *_row_cycle("AB", "PREA", CHANNEL),
    Rule(CHANNEL, ("MACAB",), ("MACAB",), "nCCDAB"),
    *_row_cycle("SB", "PRESB", BANK),
    Rule(CHANNEL, ("MACSB",), ("MACSB",), "nCCDSB"),
    *_row_cycle("PB", "PREPB", BANK),
    Rule(CHANNEL, ("MACPB",), ("MACPB",), "nBL"),
    Rule(SID, ("MACPB",), ("MACPB",), "tCCD_S"),
    Rule(GROUP, ("MACPB",), ("MACPB",), "tCCD_L"),
    # the data path of moves, which ordinary reads and writes share
    Rule(PCH, DATA, DATA, "nBL"),
    Rule(SID, DATA, DATA, "tCCD_S"),
    Rule(GROUP, DATA, DATA, "tCCD_L"),
    # PREA closes the rows of every kind; refresh needs them closed
    Rule(CHANNEL, ("ACTSB", "ACTPB", "ACT"), ("PREA",), "tRAS"),
    Rule(CHANNEL, ("MACSB", "MACPB", "RD"), ("PREA",), "tRTP"),
    Rule(CHANNEL, ("WR",), ("PREA",), dram.WRITE_END),
    Rule(CHANNEL, ("PREA",), ("ACTSB", "ACTPB", "ACT"), "tRP"),
    Rule(CHANNEL, ("PRE", "PREab"), ACTS, "tRP"),
    Rule(CHANNEL, PRES, ("REFab", "REFpb", "SRE"), "tRP"),
    Rule(CHANNEL, ACTS, ("REFab", "REFpb", "SRE"), "tRC"),
    Rule(CHANNEL, ("REFab",), ACTS, "tRFC"),
    Rule(CHANNEL, ("REFpb",), ACTS, "tRFCpb"),
    Rule(CHANNEL, ("SRX",), ACTS, "tXS"),
)

STANDARD = Standard(
    "attacc",
    TIMINGS,
    COMMANDS,
    RULES,
    unmodelled=(
        "tFAW and tRRD do not count ACTAB, ACTSB and ACTPB: the simulator has no such rule [secondary A]",
        "ACTSB and ACTPB keep nothing from ordinary ACT, RD and WR of their other banks, nor SB, PB and AB from one "
        "another but through PREA: banks are used in one way at a time [secondary A]",
        "nRTPS, RD to PREA: a part has one tRTP, the simulator's nRTPL",
        "the simulator lets REFab follow PREA, and PREA follow ACTSB, ACTPB, MACSB and MACPB, in the next clocks, and "
        "SFM come at any: nRP, nRAS, nRTPL and the data path hold here",
    ),
)
