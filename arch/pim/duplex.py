"""Duplex's bank bundles: eight of the sixteen banks of a rank and pseudo channel work as one for the logic die.

Rows appended to `hbm3`. A bundle is the upper or the lower half of a rank's banks in a pseudo channel, two of each bank
group; all of them take the same command and address, and switches on the banks' I/O keep them apart from the
ordinary path. Levels here know no half of a rank: a rank has a second row buffer (buffer 1) that stands for its open
bundle, of which there is one at a time; the bank coordinate of a command says which half, and no rule reads it.
Commands and waits at the rank [secondary S]: HeliosZhou/LLMSimulator@f71dde4, which grew out of the simulator of Yun et
al., MICRO 2024, arXiv:2409.01141; its ALL-ACT after PREab waits for nRFC, here for tRP [derived: a slip]. Between ranks
of a pseudo channel ALL_RD and ALL_WR are tCCD_L apart, too: they share the TSVs and the GEMM module, which take 2048
bits in tCCD_L [derived from the paper's bandwidth; S has no such rule]. Waits count CK.

The memory of S (shenjiangqiu/llmsimulator_ramulator@5499595) counts tFAW over both ranks of a pseudo channel, which lie
on different dies; a part that gives tFAW_R does, too.
"""

from pimloom.arch.command import Command, Level, Role, Row, Rule, Standard
from pimloom.arch.dram import SHARED, WRITE_END

CHANNEL, PCH, RANK = Level.CHANNEL, Level.PSEUDO_CHANNEL, Level.RANK
ANY, OPEN, CLOSED = Row
BUNDLE = 1  # the row buffer

ROW_BUS, COLUMN_BUS = "row", "column"
COMMANDS = (
    Command("ALL_ACT", Role.ACTIVATE, RANK, CLOSED, OPEN, "tRCDRD", "open the same row of all banks of a bundle",
            ROW_BUS, BUNDLE, "all_act"),
    Command("ALL_RD", Role.MULTIPLY, RANK, OPEN, ANY, "nCL + nBL", "read one column of each bank of a bundle to the "
            "logic die", COLUMN_BUS, BUNDLE, "all_rd"),
    Command("ALL_WR", Role.COPY_BACK, RANK, OPEN, ANY, WRITE_END, "write one column of each bank of a bundle from the "
            "logic die", COLUMN_BUS, BUNDLE, "all_wr"),
    Command("ALL_PRE", Role.PRECHARGE, RANK, ANY, CLOSED, "tRP", "close the rows of a bundle", ROW_BUS, BUNDLE),
)  # fmt: skip

ALL = tuple(command.name for command in COMMANDS)
RULES = (
    Rule(CHANNEL, ("ACT", "PRE", "PREab", "REFab", "REFpb", "ALL_ACT", "ALL_PRE"), ("ALL_ACT",), "2"),  # as ACT
    Rule(CHANNEL, ("ALL_ACT", "ALL_PRE"), ("ACT",), "2"),
    # a bundle's own row cycle
    Rule(RANK, ("ALL_ACT",), ("ALL_ACT",), "tRC"),
    Rule(RANK, ("ALL_ACT",), ("ALL_RD",), "tRCDRD"),
    Rule(RANK, ("ALL_ACT",), ("ALL_WR",), "tRCDWR"),
    Rule(RANK, ("ALL_ACT",), ("ALL_PRE",), "tRAS"),
    Rule(RANK, ("ALL_PRE",), ("ALL_ACT", "REFab"), "tRP"),
    Rule(RANK, ("ALL_RD",), ("ALL_PRE", "PREab"), "tRTP"),
    Rule(RANK, ("ALL_WR",), ("ALL_PRE",), WRITE_END),
    # the path to the logic die
    Rule(PCH, ("ALL_RD", "ALL_WR"), ("ALL_RD", "ALL_WR"), "tCCD_L"),
    Rule(RANK, ("ALL_WR",), ("ALL_RD",), "nCWL + nBL + tWTR_L"),
    Rule(RANK, ("ALL_RD",), ("ALL_WR",), "nCL + nBL + 2 - nCWL"),
    # all banks
    Rule(RANK, ("REFab",), ("ALL_ACT",), "tRFC"),
    Rule(RANK, ("PREab",), ("ALL_ACT",), "tRP"),
    Rule(PCH, ("ACT",), ("ACT",), "tFAW_R", window=4),
)

STANDARD = Standard(
    "duplex",
    {},
    COMMANDS,
    RULES,
    unmodelled=(
        "the half of a rank: a rank has one open bundle, whose row is kept apart from those of its banks; that no bank "
        "is used by ACT and ALL_ACT at once is seen to by placement, which gives each bundle one processor",
        "PREab closes the rows that ACT opened, ALL_PRE those of a bundle",
        "tFAW, tRRD and a limit of power on ALL_ACT: no such rule [secondary S]",
        "REFpb beside an open bundle, self-refresh beside ALL_ACT: REFab alone refreshes a part with bundles",
    ),
    optional=SHARED,
)
