"""DDR4 SDRAM (JEDEC JESD79-4): one channel of 64 data pins, its ranks of four bank groups of four banks (x4, x8).

Rules as in JESD79-4 and its public restatements (DRAMsim3, Ramulator 2.1). From one rank to another a column command
waits until the bursts no longer meet on the pins, and nRTRS more; DRAMsim3 and Ramulator let two WR of different
ranks follow without that pause, and Ramulator lets a WR follow an RD of another rank after nBL + nRTRS. Waits count CK.
"""

from pimloom.arch import dram
from pimloom.arch.command import Level, Standard

RANK = Level.RANK

STANDARD = Standard(
    "ddr4",
    dram.TIMINGS | dram.RANKS,
    (*dram.commands(RANK), *dram.self_refresh_commands(RANK)),
    (*dram.rules(RANK), *dram.rank_rules(), *dram.self_refresh_rules(RANK)),
    unmodelled=(
        *dram.UNMODELLED_WITH_SELF_REFRESH,
        "burst chop (BC4), additive latency, CRC and command/address parity: every burst is BL8, every latency plain",
        "fine granularity refresh (2x, 4x) and the temperature ranges of tREFI: one tRFC, one tREFI",
        "gear-down and 2N command timing: a command takes one clock of the bus",
        "3D stacks (logical ranks): no such level here",
        "on-die termination and its switching between ranks: nRTRS stands for it",
    ),
    refresh="REFab",
    optional=dram.SELF_REFRESH,
)
