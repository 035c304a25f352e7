"""The NPU's side of the machine: operators, their blocks of memory requests, their tasks on arrays and vector units.

An operator starts when those before it have ended: its loads and PIM commands are sent at once. A task starts when the
groups of requests that it needs are complete, and sends its own block when it ends. An operator ends with its last task
and its last response.
"""

from typing import NamedTuple

import numpy as np

# op[o]: port that its requests enter by, whether its tasks run in order (a systolic array), first load block and end,
# first task and end, first PIM command and end, bytes of addresses that it takes, operators it waits for, what is left
# of it (tasks, groups), clocks of its start and end, the least time of a task, next task in order, whether it
# runs, first byte of its addresses, whether its PIM commands leave one by one, whether each task waits for all loads,
# tasks that have not ended, first task in order that has not started and stores, last clock in which it sends anything
(
    PORT, IN_ORDER, LOADS, LOADS_END, TASKS, TASKS_END, DOTS, DOTS_END, BYTES, WAITS, LEFT, START, END, LEAST,
    NEXT_TASK, RUNS, BASE, SINGLY, JOINT, TO_DO, NEXT_STORE, LATEST, N_OP,
) = range(23)  # fmt: skip
# block[k]: first byte of its operator's addresses, bytes, RD or WR, group, operator
AT, SIZE, ACCESS, BLOCK_GROUP, BLOCK_OP, N_BLOCK = range(6)
# task[k]: cycles, whether an array loads its weights first, whether it takes all vector units, groups it needs (-1:
# none), groups not complete yet, clock in which the last one was, block it sends in the end (-1: none), operator
CYCLES, PRELOADS, WIDE, NEED_A, NEED_B, NEED_C, MISSING, READY, SENDS, TASK_OP, N_TASK = range(11)
# array[…]: clock of the last issue, start and end of the last step, earliest start of the next step that ends a tile
# (output stationary)
ISSUED, STARTED, ENDED, DRAINED, N_ARRAY = range(5)
# account[o]: at the clock in which the end of operator o is noticed, for all channels: that clock, clocks of all ranks
# with a row open in the MEM and in the PIM row buffer, then commands by opcode
CLOCK, MEM_OPEN, PIM_OPEN, COMMAND = range(4)
# npu[…]: rows and columns of an array, cycles of a step, bytes after which addresses begin again, next byte, bytes of a
# line, its place in an address, whether lines leave hashed, clock, operators that began and that ended, most responses
# of a channel in a clock, most clocks of a window, whether results stand in the arrays, whether no step starts
# before now
(
    ROWS, STEP, WRAP, NEXT_BYTE, LINE, COLUMN_BITS, CHANNEL_BITS, HASHED, TIME, N_BEGUN, N_ENDED, ANSWERS, LONGEST,
    BY_OUTPUT, CLAMPED, N_NPU,
) = range(16)  # fmt: skip


class Program(NamedTuple):
    """Operators in an order in which none waits for a later one; see the fields above.

    after_ptr, after_op: CSR, the operators that wait for an operator. task_ptr, task_of: CSR, the tasks out of order
    that need a group. unit[u]: clock in which the work of a vector unit ends; empty: no task waits for one. order,
    keys, marks: room to order the lines of a block.
    """

    op: np.ndarray
    block: np.ndarray
    task: np.ndarray
    after_ptr: np.ndarray
    after_op: np.ndarray
    task_ptr: np.ndarray
    task_of: np.ndarray
    array: np.ndarray
    unit: np.ndarray
    npu: np.ndarray
    order: np.ndarray
    keys: np.ndarray
    marks: np.ndarray
    account: np.ndarray
