"""What AiM's kernels read and write: commands, columns of their tables, and the state of host and channels."""

from typing import NamedTuple

import numpy as np

from pimloom.arch.aim import COMMANDS
from pimloom.cycle_sim.dram.kernels.device import Device

(
    ACT, PRE, ACT16, PREAB, RD, WR, MAC, RDCP, WRCP, MAC16, EWMUL16, AF16, WRA16, WRGB, WRMAC16, RDMAC16, RDAF16, TMOD,
    REFAB,
) = range(len(COMMANDS))  # fmt: skip

# columns of `ops`
NEEDS, MODE, READS, BLOCKS, LATENCY, STEADY, N_OPS = range(7)
NO_ROW, OF_BANK, OF_ALL = range(3)  # NEEDS: an open row
# queues of a channel, and what is known of a request there
OF_AIM, OF_READS, OF_WRITES, ACTIVE, N_QUEUES = range(5)
Q_OP, Q_BANK, Q_ROW, Q_AT, Q_TIMES, N_REQUEST = range(6)
# a channel
(
    WAKE, LEFT, WRITING, REGISTERS, ANSWER, BEHIND, BEHIND_ANSWER, WRITTEN, SYNCING, SAME, OPEN, OPENED_AT, OPEN_CK,
    FIRST, BLOCKED, DUE, STARVED, VAIN, TAKEN, GONE, FREE, N_CHANNEL,
) = range(22)  # fmt: skip
# the host
(
    NEXT, AT, DECODED, WAITS, UNANSWERED, ANSWERED, DONE, DRAIN, DRAINED, ENTRIES, LOGGED, REFI, FILLED, N_HOST,
) = range(14)  # fmt: skip
CLOCK, LOG_CHANNEL, LOG_OP, LOG_BANK, LOG_ROW, N_LOG = range(6)
FINISHED, LOG_FULL, STUCK = range(3)
MOST_STARVED = 1 << 10  # refreshes of a channel between which no request was served, though some wait
MOST_VAIN = 1 << 16  # commands of a channel for requests, none of which was served, where no refresh comes


class Aim(NamedTuple):
    """channel[c]: when something can happen next (WAKE), requests that the DMA could not hand over (LEFT), whether it
    serves writes and is in register mode, the clock of its last answer, and of those behind a SYNC, until when a write
    is under way, since when SYNC waits, the row that all banks have open (-1: not the same), open banks, clocks with
    any, clocks in which it might not close a row (BLOCKED), when the next refresh falls due, since a request was served
    the refreshes (STARVED) and the commands for others (VAIN); of AiM the requests that were taken and those that are
    GONE, and the first clock that is FREE behind the last of them: a channel may be ahead of the host.
    bound, beside, ring: of each channel, see `Device`.
    queue[c, q], size[c, q]: requests, Q_TIMES equal ones in one; those of AiM are a ring that begins at FIRST.
    gone[c, i]: clocks in which the last requests of AiM left the queue, a ring of one more than it holds, by number.
    open_row[c, b]: -1 if closed. counts[c, op]: commands.
    host: the instruction that is next (AT: it may be so early, where channels are ahead) and the last that was decoded,
    channels to which the DMA has yet to hand requests (WAITS), clock of the last that it handed over (FILLED).
    """

    device: Device
    bound: np.ndarray
    beside: np.ndarray
    ring: np.ndarray
    ops: np.ndarray
    channel: np.ndarray
    queue: np.ndarray
    size: np.ndarray
    gone: np.ndarray
    open_row: np.ndarray
    counts: np.ndarray
    host: np.ndarray
