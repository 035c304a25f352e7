"""HBM2 (JEDEC JESD235) in legacy mode: one channel of 128 data pins, one command bus, its stack IDs as ranks.

The ranks share the data pins as in DRAMsim3: a pause of nRTRS from one rank's RD to another's, none from WR to WR.
Rules checked against public command traces in `tests/test_neupims_golden.py`. Waits count CK.
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Standard

RANK = Level.RANK

STANDARD = Standard(
    "hbm2_legacy",
    dram.TIMINGS | dram.RANKS,
    dram.commands(RANK),
    (*dram.rules(RANK), *dram.rank_rules(write_gap="nBL")),
    unmodelled=(
        *dram.UNMODELLED,
        "REFSB (single-bank refresh): refresh is all-bank here",
        "separate row and column command buses: one command a clock, as in the simulators that use this mode",
    ),
    refresh="REFab",
)
