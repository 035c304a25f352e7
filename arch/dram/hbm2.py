"""HBM2 (JEDEC JESD235) in pseudo-channel mode: two pseudo channels share a row and a column command bus.

ACT holds the row bus for two clocks; its issue clock here is the second, from which JEDEC counts. Rules checked
against public command traces in `tests/test_reference_traces.py`. Waits count CK.
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Rule, Standard

COMMANDS = dram.commands(Level.PSEUDO_CHANNEL, row_bus="row", column_bus="column")
ROW_BUS = tuple(command.name for command in COMMANDS if command.bus == "row")

STANDARD = Standard(
    "hbm2",
    dram.TIMINGS,
    COMMANDS,
    (Rule(Level.CHANNEL, ROW_BUS, ("ACT",), "2"), *dram.rules(Level.PSEUDO_CHANNEL)),  # JESD235: a two-clock ACT
    unmodelled=(*dram.UNMODELLED, "REFSB (single-bank refresh): refresh is all-bank here", "legacy mode"),
    refresh="REFab",
)
