"""NeuPIMs' PIM commands: Newton's with a second row buffer per bank, and one command for a whole dot product.

Rows appended to `hbm2_legacy`. G_ACT opens rows in the PIM row buffer (buffer 1) and PIM_PRECHARGE closes one, while
ACT, RD, WR and PRE go on in the MEM row buffer (buffer 0); the two buffers of a bank never hold the same row.
PIM_GEMV(n) stands for n COMPs and a READRES on the command bus. Moment that rules count from, but nobody issues:
GEMV_END, the larger of n x nCOMP and nGEMV after PIM_GEMV(n). Names and scopes: Heo et al., ASPLOS 2024, 5.2;
PIM_PRECHARGE closes one bank, as in their simulator; a controller that closes more with one (`dram.pim_precharge`)
heeds the rules of each. Rules [secondary NEU]: casys-kaist/NeuPIMs@f299af3,
`extern/NewtonSim/src/timing.cc`, restated; checked against its measured cycle counts and command traces in
`tests/test_neupims_golden.py`. Waits count CK.
"""

from pimloom.arch.command import Command, Level, Role, Row, Rule, Standard
from pimloom.arch.pim import newton

CHANNEL, RANK, GROUP, BANK = Level.CHANNEL, Level.RANK, Level.BANK_GROUP, Level.BANK
ANY, OPEN, CLOSED = Row
PIM = 1  # the row buffer

GEMV, END = "n COMPs and a READRES in all banks", "moment: the MACs of a PIM_GEMV end"
COMMANDS = (
    *newton.commands(buffer=PIM),
    Command("PIM_GEMV", Role.GEMV, CHANNEL, OPEN, ANY, "nCL + nBL", GEMV, "command", PIM, "readres", newton.COMP),
    Command("PIM_PRECHARGE", Role.PRECHARGE, BANK, ANY, CLOSED, "tRP", "close the PIM row of one bank", buffer=PIM),
    Command("GEMV_END", Role.LAST_MULTIPLY, CHANNEL, ANY, ANY, "1", END, newton.MOMENT, PIM),
)

RULES = (
    *newton.rules(("PIM_GEMV",)),
    Rule(GROUP, ("G_ACT",), ("PIM_PRECHARGE",), "tRAS"),
    Rule(BANK, ("PIM_PRECHARGE",), ("G_ACT",), "tRP"),
    Rule(RANK, ("PIM_PRECHARGE",), ("REFab",), "tRP"),
    Rule(CHANNEL, ("RD",), ("PIM_GEMV",), "nBL"),
    Rule(CHANNEL, ("WR",), ("PIM_GEMV",), "nCWL + nBL + tWTR_S"),
    Rule(CHANNEL, ("PIM_GEMV",), ("RD",), "nBL + nRTRS"),
    Rule(CHANNEL, ("PIM_GEMV",), ("WR",), "nRTW"),
    Rule(CHANNEL, ("PIM_GEMV",), ("GWRITE",), "nBL"),
    Rule(CHANNEL, ("PIM_GEMV",), ("G_ACT",), "tRTP + tRP"),
    Rule(CHANNEL, ("PIM_GEMV",), ("PIM_PRECHARGE",), "tRTP"),
    Rule(CHANNEL, ("GEMV_END",), ("PIM_GEMV",), "nCOMP"),
    Rule(CHANNEL, ("GEMV_END",), ("PIM_PRECHARGE",), "nENDPRE"),
)

STANDARD = Standard(
    "neupims",
    newton.TIMINGS,
    COMMANDS,
    RULES,
    unmodelled=newton.STANDARD.unmodelled,
    optional=newton.OPTIONAL,
)
