"""Newton-style PIM commands: a vector in the channel's global buffer meets one open row of every bank.

Rows appended to `hbm2_legacy`; command names of Newton (MICRO 2020). One row buffer: a row that G_ACT opened stands
where ACT opens one, so reads and writes wait (blocked mode). PIM_HEADER announces a tile (a row index in all banks, how
many COMP and READRES follow) and moves nothing. Moment that rules count from, but nobody issues: COMP_FIRST, the first
COMP of a result. Rules [secondary NEU]: casys-kaist/NeuPIMs@f299af3, `extern/NewtonSim/src/timing.cc`, restated;
checked against its measured cycle counts and command traces in `tests/test_neupims_golden.py`. Waits count CK.
"""

from pimloom.arch.command import Command, Level, Role, Row, Rule, Standard

CHANNEL, RANK, GROUP, BANK = Level.CHANNEL, Level.RANK, Level.BANK_GROUP, Level.BANK
ANY, OPEN, CLOSED = Row
MOMENT = "none"  # the bus of a moment: nobody issues it

TIMINGS = {
    "nGWRITE": "GWRITE to the end of its copy into the global buffer",
    "nTREE": "first COMP of a result to its READRES: fill of the adder tree",
    "nCOMP": "COMP to COMP",
    "nGEMV": "least time of the COMPs of a PIM_GEMV",
}
OPTIONAL = {
    "nGWGW": "GWRITE to GWRITE of the same bank",
    "nGACTPRE": "G_ACT to the precharge of its row, where tRAS alone does not bind it",
    "nACTGACT": "ACT to G_ACT of the same rank: four activations at once fill the window of tFAW",
    "nENDPRE": "end of the COMPs of a PIM_GEMV to PIM_PRECHARGE",
}


def commands(buffer: int) -> tuple[Command, ...]:
    """What Newton and NeuPIMs share; G_ACT opens rows in this row buffer."""
    copy, opens = "copy the open row into the channel's global buffer", "open a row of all banks of a group"
    return (
        Command("GWRITE", Role.COPY, BANK, OPEN, ANY, "nGWRITE", copy, charged_to="gwrite"),
        Command("G_ACT", Role.ACTIVATE, GROUP, CLOSED, OPEN, "tRCDRD", opens, buffer=buffer, charged_to="g_act"),
        Command("PIM_HEADER", Role.ANNOUNCE, CHANNEL, ANY, ANY, "1", "announce a tile: its row, COMPs and results"),
    )


def rules(dots: tuple[str, ...]) -> tuple[Rule, ...]:
    """What Newton and NeuPIMs share; dots: commands of the MAC units that need the global buffer and an open row."""
    return (
        # GWRITE: a bank is read into the global buffer for nGWRITE
        Rule(BANK, ("ACT",), ("GWRITE",), "tRCDRD"),
        Rule(RANK, ("RD",), ("GWRITE",), "nBL"),
        Rule(RANK, ("WR",), ("GWRITE",), "nCWL + nBL + tWTR_S"),
        Rule(GROUP, ("WR",), ("GWRITE",), "nCWL + nBL + tWTR_L"),
        Rule(BANK, ("GWRITE",), ("RD", "WR", "PRE"), "nGWRITE"),
        Rule(RANK, ("GWRITE",), ("RD",), "nBL"),
        Rule(RANK, ("GWRITE",), ("WR",), "nRTW"),
        Rule(BANK, ("GWRITE",), ("GWRITE",), "nGWRITE", sibling=True),
        Rule(GROUP, ("GWRITE",), ("GWRITE",), "nGWRITE", sibling=True),
        Rule(BANK, ("GWRITE",), ("GWRITE",), "nGWGW"),
        Rule(CHANNEL, ("GWRITE",), dots, "nGWRITE"),
        # G_ACT: four banks open at once
        Rule(GROUP, ("ACT",), ("G_ACT",), "tRRD_L"),
        Rule(RANK, ("ACT",), ("G_ACT",), "tRRD_S"),
        Rule(RANK, ("ACT",), ("G_ACT",), "nACTGACT"),
        Rule(RANK, ("G_ACT",), ("ACT", "G_ACT"), "tFAW"),
        Rule(GROUP, ("G_ACT",), ("G_ACT",), "tRC"),
        Rule(CHANNEL, ("G_ACT",), dots, "tRCDRD"),
        Rule(RANK, ("REFab",), ("G_ACT",), "tRFC"),
    )


MAC, RESULT = "every bank: multiply-accumulate one column", "read one result of every bank"
FIRST = "moment: the first COMP of a result"
COMP = Command("COMP", Role.MULTIPLY, CHANNEL, OPEN, ANY, "nCOMP", MAC, charged_to="comp")
COMMANDS = (
    *commands(buffer=0),
    COMP,
    Command("READRES", Role.RESULTS, CHANNEL, OPEN, ANY, "nCL + nBL", RESULT, charged_to="readres"),
    Command("COMP_FIRST", Role.FIRST_MULTIPLY, CHANNEL, ANY, ANY, "nTREE", FIRST, MOMENT),
)

RULES = (
    *rules(("COMP", "READRES")),
    Rule(BANK, ("ACT",), ("G_ACT",), "tRC"),
    Rule(GROUP, ("G_ACT",), ("ACT",), "tRC"),
    Rule(GROUP, ("G_ACT",), ("PRE",), "nGACTPRE"),
    Rule(BANK, ("PRE",), ("G_ACT",), "tRP"),
    Rule(CHANNEL, ("RD",), ("COMP",), "nBL"),
    Rule(CHANNEL, ("RD",), ("READRES",), "nBL + nRTRS"),
    Rule(CHANNEL, ("WR",), ("COMP", "READRES"), "nCWL + nBL + tWTR_L"),
    Rule(CHANNEL, ("COMP",), ("RD", "GWRITE", "READRES"), "nBL"),
    Rule(CHANNEL, ("COMP",), ("COMP",), "nCOMP"),
    Rule(CHANNEL, ("COMP",), ("WR",), "nRTW"),
    Rule(CHANNEL, ("COMP",), ("PRE",), "tRTP"),
    Rule(CHANNEL, ("COMP_FIRST",), ("READRES",), "nTREE"),
    Rule(CHANNEL, ("READRES",), ("RD",), "nBL + nRTRS"),
    Rule(CHANNEL, ("READRES",), ("WR",), "nRTW"),
    Rule(CHANNEL, ("READRES",), ("GWRITE", "READRES"), "nBL"),
    Rule(CHANNEL, ("READRES",), ("COMP",), "nCOMP"),
    Rule(CHANNEL, ("READRES",), ("PRE",), "tRTP"),
    Rule(CHANNEL, ("READRES",), ("G_ACT",), "tRTP + tRP"),
)

STANDARD = Standard(
    "newton",
    TIMINGS,
    COMMANDS,
    RULES,
    unmodelled=(
        "tFAW and tRRD between G_ACTs of different groups: a G_ACT closes the window of its rank by itself",
        "PWRITE and the write of results into a bank: the simulator never sends one [secondary NEU]",
    ),
    optional=OPTIONAL,
)
