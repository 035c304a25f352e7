"""The NPU's side of the machine: operators, their blocks of memory requests, their tasks on arrays and vector units.

An operator starts when those before it have ended: its loads and PIM commands are sent. A task starts when the groups
of requests that it needs are complete, and its block is stored when it has ended; IN_ORDER says whether tasks and
stores leave in the order of the program, one of each in a cycle. An operator ends with its last task and its last
response.
"""

from typing import NamedTuple

import numpy as np

# op[o]: port that its loads and PIM commands enter by, that of its stores, whether its tasks run on the arrays, first
# load block and end, first store and end, first task and end, first PIM command and end, bytes of addresses that it
# takes, operators it waits for, what is left of it (tasks, groups), clocks of its start and end, the least time of a
# task, next task in order, first byte of its addresses, whether its loads and PIM commands leave one by one, whether
# each task waits for all loads, tasks that have not ended, first task in order that has not started and stores, last
# clock in which it sends PIM commands, clocks between the end of those before it and its start, whether two of those
# ended at once, next load, next store of the queue, next one that is not empty, requests that it sent, tasks in flight
# and those of them that store
(
    PORT, STORES, ON_ARRAYS, LOADS, LOADS_END, OUTS, OUTS_END, TASKS, TASKS_END, DOTS, DOTS_END, BYTES, WAITS, LEFT,
    START, END, LEAST, NEXT_TASK, BASE, SINGLY, JOINT, TO_DO, NEXT_STORE, LATEST, PAUSE, TIE, NEXT_LOAD, NEXT_OUT,
    NEXT_FULL, REQUESTS, FLYING, STORING, N_OP,
) = range(33)  # fmt: skip
# block[k]: first byte of its operator's addresses, bytes, RD or WR, group, operator, group that must be complete before
# it leaves (-1: none)
AT, SIZE, ACCESS, BLOCK_GROUP, BLOCK_OP, GATE, N_BLOCK = range(7)
# task[k]: clocks (of a step of the arrays: ticks of its streaming, GEMM is STEP), what an array loads first (nothing,
# TILE, VECTOR; ON_UNIT: it is work for a vector unit in the queue of the arrays), whether it takes all vector units,
# groups it needs (-1: none), groups not complete yet, clock in which the last one was (once it started: in which it
# ends), store it makes (-1: none), operator, step that must have ended before (-1: none), clocks since then, store
# whose result it adds to (-1: none is counted)
(
    CYCLES, PRELOADS, WIDE, NEED_A, NEED_B, NEED_C, MISSING, READY, SENDS, TASK_OP, FOLLOWS, PAUSED, ENTRY, N_TASK,
) = range(14)  # fmt: skip
# store[k]: its block, its task, the first task that adds to it (-1: it leaves when its task has ended), group of its
# bias (-1: none), tasks that add to it now, whether one has begun to
BLOCK, TASK, FIRST_TASK, BIAS, PENDING, BEGUN, N_STORE = range(7)
NOTHING, TILE, VECTOR, ON_UNIT = range(4)
N_LOADED = ON_UNIT
GEMM = -1
# array[…]: clock of the last issue; in ticks: start and end of the last step, earliest start of the next step that
# ends a tile (output stationary), length of the last step
ISSUED, STARTED, ENDED, DRAINED, STREAMS, N_ARRAY = range(6)
# reach[…]: a channel to which an operator sends PIM commands, and how many had been sent there when it had sent its own
REACHED, SENT, N_REACH = range(3)
# flight[…]: clock in which a task ends, which, its operator, whether it stores
LANDS, FLIES, OWNER, STORES_TOO, N_FLIGHT = range(5)
# account[o]: at the clock in which the end of operator o is noticed, for all channels: that clock, clocks of all ranks
# with a row open in the MEM and in the PIM row buffer, then commands by opcode
CLOCK, MEM_OPEN, PIM_OPEN, COMMAND = range(4)
# npu[…], times of the arrays in ticks: rows and columns of an array, each for a cycle; a step of a GEMM; bytes after
# which addresses begin again, next byte, bytes of a line, bits of columns and channels in an address, banks of a
# channel, whether lines leave hashed, clock of the channels, operators that began and that ended, most responses of a
# channel in a clock, most clocks of a window, whether results stand in the arrays; from a step's end of streaming to
# its result; whether weights wait for the result of the step before, and no step starts before its operands are there;
# operators that run, that are about to; clock in which the last of the PIM commands left that leave one by one; whether
# tasks and stores leave in order; bytes that blocks begin late; clocks from an operator's last event to its end;
# whether tasks wait for a vector unit; next clock of the core; first and last task in flight; groups of `ended` that
# the core has seen; clock in which a step may start that waits for one before; clock in which the machine was last seen
# alive, and responses until then; whether a window has begun and how, and its end; ticks of a clock of the memory
# and of a cycle of the NPU; EMPTY + what is loaded: from a step's issue to its start in idle arrays; BEHIND + it: at
# least, between the start before and its own
(
    ROWS, STEP, WRAP, NEXT_BYTE, LINE, COLUMN_BITS, CHANNEL_BITS, BANKS, HASHED, TIME, N_BEGUN, N_ENDED, ANSWERS,
    LONGEST, BY_OUTPUT, LATENCY, DRAINS, CLAMPED, N_RUNNING, N_COMING, DISPATCHED, IN_ORDER, SHIFT, LATE,
    WAITS_FOR_UNIT, CORE, FLIGHT, FLIGHT_END, SEEN, WAKE, WATCHED, ANSWERED,
    IN_WINDOW, UNTIL, CLOCK_TICKS, CYCLE_TICKS, EMPTY,
) = range(37)  # fmt: skip
BEHIND = EMPTY + N_LOADED
N_NPU = BEHIND + N_LOADED


class Program(NamedTuple):
    """Operators in an order in which none waits for a later one; see the fields above.

    after_ptr, after_op: CSR, the operators that wait for an operator. task_ptr, task_of: CSR, the tasks of vector units
    that need a group. unit[u]: clock in which the work of a vector unit ends. reach_ptr, reach: CSR, the channels of an
    operator's PIM commands. running, coming: the operators that run and those that are about to, in their order.
    flight: tasks that have started, in order of their ends. order, keys, packed, ends: room to order the lines of
    a block, see `hash_set`. sums: see `clocks`.
    """

    op: np.ndarray
    block: np.ndarray
    task: np.ndarray
    store: np.ndarray
    after_ptr: np.ndarray
    after_op: np.ndarray
    task_ptr: np.ndarray
    task_of: np.ndarray
    reach_ptr: np.ndarray
    reach: np.ndarray
    running: np.ndarray
    coming: np.ndarray
    flight: np.ndarray
    array: np.ndarray
    unit: np.ndarray
    npu: np.ndarray
    order: np.ndarray
    keys: np.ndarray
    packed: np.ndarray
    ends: np.ndarray
    sums: np.ndarray
    account: np.ndarray
