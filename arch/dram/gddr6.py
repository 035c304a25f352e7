"""GDDR6 SGRAM (JEDEC JESD250): one channel of 16 data pins, four bank groups of four banks.

Rules as in JESD250 and its public restatements (DRAMsim3, Ramulator 2.1); checked against their command traces
in `tests/test_reference_traces.py`. Waits count CK.
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Rule, Standard

PRECHARGES = ("PRE", "PREab")

STANDARD = Standard(
    "gddr6",
    dram.TIMINGS | {"tPPD": "PRE to PRE, any two banks"},
    dram.commands(Level.CHANNEL),
    (*dram.rules(Level.CHANNEL), Rule(Level.CHANNEL, PRECHARGES, PRECHARGES, "tPPD")),
    unmodelled=(
        *dram.UNMODELLED,
        "REFpb, REFp2b: refresh is all-bank here",
        "WCK clocking and masked writes (WDM, WSM): no such command here",
    ),
    refresh="REFab",
)
