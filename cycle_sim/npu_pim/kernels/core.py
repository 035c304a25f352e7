"""The NPU's side of the machine: operators, their blocks of memory requests, their tasks on arrays and vector units.

An operator starts when those before it have ended: its loads and PIM commands are sent at once. A task starts when the
groups of requests that it needs are complete, and sends its own block when it ends. An operator ends with its last task
and its last response.
"""

from typing import NamedTuple

import numpy as np

# op[o]: port that its loads and PIM commands enter by, that of its stores, whether its tasks run in order (a systolic
# array), first load block and end, first task and end, first PIM command and end, bytes of addresses that it takes,
# operators it waits for, what is left of it (tasks, groups), clocks of its start and end, the least time of a task,
# next task in order, first byte of its addresses, whether its loads and PIM commands leave one by one, whether each
# task waits for all loads, tasks that have not ended, first task in order that has not started and stores, last clock
# in which it sends anything
(
    PORT, STORES, IN_ORDER, LOADS, LOADS_END, TASKS, TASKS_END, DOTS, DOTS_END, BYTES, WAITS, LEFT, START, END, LEAST,
    NEXT_TASK, BASE, SINGLY, JOINT, TO_DO, NEXT_STORE, LATEST, N_OP,
) = range(23)  # fmt: skip
# block[k]: first byte of its operator's addresses, bytes, RD or WR, group, operator
AT, SIZE, ACCESS, BLOCK_GROUP, BLOCK_OP, N_BLOCK = range(6)
# task[k]: cycles (of a step of the arrays: of its streaming, 0 is STEP), what an array loads first (nothing,
# TILE, VECTOR), whether it takes all vector units, groups it needs (-1: none), groups not complete yet, clock in which
# the last one was (of a step: in which it ended), block it sends in the end (-1: none), operator, step that must have
# ended before (-1: none), cycles since then
(
    CYCLES, PRELOADS, WIDE, NEED_A, NEED_B, NEED_C, MISSING, READY, SENDS, TASK_OP, FOLLOWS, PAUSE, N_TASK,
) = range(13)  # fmt: skip
NOTHING, TILE, VECTOR, N_LOADED = range(4)
# array[…]: clock of the last issue, start and end of the last step, earliest start of the next step that ends a tile
# (output stationary), cycles of the last step
ISSUED, STARTED, ENDED, DRAINED, STREAMS, N_ARRAY = range(6)
# reach[…]: a channel to which an operator sends PIM commands, and how many had been sent there when it had sent its own
REACHED, SENT, N_REACH = range(3)
# account[o]: at the clock in which the end of operator o is noticed, for all channels: that clock, clocks of all ranks
# with a row open in the MEM and in the PIM row buffer, then commands by opcode
CLOCK, MEM_OPEN, PIM_OPEN, COMMAND = range(4)
# npu[…]: rows and columns of an array, cycles of a step of a GEMM, bytes after which addresses begin again, next
# byte, bytes of a line, bits of columns and channels in an address, banks of a channel, whether lines leave hashed,
# clock, operators that began and that ended, most responses of a channel in a clock, most clocks of a window, whether
# results stand in the arrays; from a step's end of streaming to its result; whether weights wait for the result of the
# step before, and no step starts before its operands are there; operators that run; clock in which the
# last of the PIM commands left that leave one by one; EMPTY + what is loaded: from a step's issue to its start in idle
# arrays; BEHIND + it: at least, between the start before and its own
(
    ROWS, STEP, WRAP, NEXT_BYTE, LINE, COLUMN_BITS, CHANNEL_BITS, BANKS, HASHED, TIME, N_BEGUN, N_ENDED, ANSWERS,
    LONGEST, BY_OUTPUT, LATENCY, DRAINS, CLAMPED, N_RUNNING, DISPATCHED, EMPTY,
) = range(21)  # fmt: skip
BEHIND = EMPTY + N_LOADED
N_NPU = BEHIND + N_LOADED


class Program(NamedTuple):
    """Operators in an order in which none waits for a later one; see the fields above.

    after_ptr, after_op: CSR, the operators that wait for an operator. task_ptr, task_of: CSR, the tasks out of order
    that need a group. unit[u]: clock in which the work of a vector unit ends; empty: no task waits for one. reach_ptr,
    reach: CSR, the channels of an operator's PIM commands. running: the operators that run, in their order,
    npu[N_RUNNING] of them. order, keys, marks: room to order the lines of a block.
    """

    op: np.ndarray
    block: np.ndarray
    task: np.ndarray
    after_ptr: np.ndarray
    after_op: np.ndarray
    task_ptr: np.ndarray
    task_of: np.ndarray
    reach_ptr: np.ndarray
    reach: np.ndarray
    running: np.ndarray
    array: np.ndarray
    unit: np.ndarray
    npu: np.ndarray
    order: np.ndarray
    keys: np.ndarray
    marks: np.ndarray
    account: np.ndarray
