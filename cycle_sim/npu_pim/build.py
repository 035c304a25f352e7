"""A PIM channel before its first clock: its table, its controller and its rules as plain arrays."""

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

import numpy as np

from pimloom.arch.command import Level
from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.pim_channel import ChannelRules, PimChannel
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.dram.kernels.device import FAR, shape_of
from pimloom.cycle_sim.npu_pim.kernels import clocks
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels.banks import ROW_PLACES
from pimloom.cycle_sim.npu_pim.kernels.requests import READ_PLACES, WRITE_PLACES
from pimloom.cycle_sim.npu_pim.places import names_of
from pimloom.cycle_sim.npu_pim.rules import device_of

LINE_BYTES = 64  # of the caches of the processor that simulates
LARGE_BYTES = 1 << 18  # from here on the C library may give room that was used before, and clear all of it
ROUND = 1 << 16  # commands that the log holds
DRIFTS = 1 << 12  # times that the sums of two clocks part or meet
APART = 5  # requests more than a power of two, or those of all channels would lie in the same places of the caches
MOST_ALIKE = np.iinfo(np.int16).max  # reads or writes that one place of `seen` or `alike` can count
SPARE = 64  # beyond the window: requests that answer in the clock in which they come


def build(
    spec: PimChannel,
    requests: int,
    *,
    ports: int,
    groups: int,
    logging: bool,
    log: int = ROUND,
    steps: int = 0,
    answers: int | None = None,
) -> f.Channel:
    """An idle channel with room for `requests` requests at each of `ports` ways in, and `groups` groups of requests.

    log: commands that the log holds. steps: of an interconnect in a clock, 0: without one. answers: most responses
    before they are counted, all if None.
    """
    part = spec.device()
    table, policy = compile_table(part), policy_of(spec, part)
    names = names_of(table)
    banks, ranks = part.organization.banks, part.organization.ranks
    _check(spec, part, table)
    state = np.zeros(f.N_ROW, np.int64)
    state[f.N_STATE : f.END_OF_POLICY] = policy
    bank = state[f.BANK_AT :][: banks * f.N_BANK].reshape(banks, f.N_BANK)
    bank[:] = -1
    bank[:, [f.SERVED, f.ENTRIES, f.LISTED]] = 0
    state[[f.LOCK, f.IN_REFRESH, f.RESERVED, f.STILL, f.BUFFER]] = -1
    state[f.ALARM] = FAR
    c, window = spec.controller, spec.controller.window
    held = window + 3 * c.entries + banks * c.queue_entries + c.pim_queue_entries  # merged reads, lists, command queues
    held = 1 << (held - 1).bit_length() | APART
    state[f.FILL], state[f.NEXT_REFRESH], state[f.SPARES] = 1, state[f.REFRESH_CK], held
    state[f.LOGGING], state[f.PATH], state[f.DEPTHS] = logging, steps, len(shape_of(table).sizes)
    ring = 1 << (window + SPARE).bit_length()
    return f.Channel(
        device=device_of(table, names),
        request=np.zeros((held, f.N_REQUEST), np.int32),
        spare=np.arange(held, dtype=np.int32),
        list=np.zeros((f.LISTS, 1 << (c.entries - 1).bit_length(), f.N_LIST), np.int64),
        dots=np.zeros(1 << (c.pim_queue_entries - 1).bit_length(), np.int64),
        line=np.zeros((f.LINES, ring, f.N_LINE), np.int64),
        order=np.zeros((ports, (1 << (requests - 1).bit_length()) + f.BEYOND - 1, f.N_ORDER), np.int64),
        dot=np.zeros((0, f.N_DOT), np.int64),
        port=np.tile(np.array([0, 0, 0, -1]), (ports, 1)),
        left=np.zeros(groups, np.int64),
        done=np.zeros(groups, np.int64),
        turn=np.zeros(groups, np.int64),
        ended=np.zeros(groups + 1, np.int64),
        owner=np.zeros(groups, np.int64),
        open=np.zeros(1, np.int64),
        answer=np.zeros((answers or ports * requests, f.N_ANSWER), np.int64),
        seen=np.zeros(READ_PLACES, np.int16),
        alike=np.zeros(2 * WRITE_PLACES, np.int16),
        queued=np.full((ROW_PLACES, f.N_QUEUED), -1, np.int32),
        command=np.zeros((log if logging else 2, 4), np.int64),
        tally=np.zeros(len(f.COMMANDS), np.int64),
        rank=np.zeros((2 * ranks, 3), np.int64),
        drift=np.zeros((clocks.FIRST + DRIFTS if steps else clocks.FIRST, 2), np.int64),
        state=state,
    )


def _check(spec: PimChannel, part: Part, table: Table) -> None:
    """Raise UserError for what a channel here cannot be."""
    banks, ranks, c = part.organization.banks, part.organization.ranks, spec.controller
    if ranks > 1 and table.rules.size[table.rules.scope[table.rules.refresh]] != table.rules.size[Level.RANK]:
        raise UserError(
            f"dram.organization.ranks: {table.refresh} of this standard is of all ranks of a pseudo channel, and an "
            "NPU's channel closes the rows of one rank for it; expected 1"
        )
    if (waiting := c.entries + banks * c.queue_entries) > MOST_ALIKE:
        raise UserError(
            f"controller.queue_entries: {banks} queues of {c.queue_entries} and a list of {c.entries} hold {waiting} "
            f"reads or writes; expected at most {MOST_ALIKE}"
        )


def zeros_in_lines(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros that begin with a line of the caches, so that no request lies in two; they take no memory before they are
    written."""
    size = int(np.prod(shape)) * dtype.itemsize
    if size >= LARGE_BYTES:
        try:
            pages = mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"no room for {size:,} bytes") from error
        return np.frombuffer(pages, dtype).reshape(shape)
    found = np.zeros(size + LINE_BYTES, np.uint8)
    at = -found.ctypes.data % LINE_BYTES
    return found[at : at + size].view(dtype).reshape(shape)


def policy_of(spec: PimChannel, part: Part) -> np.ndarray:
    """The controller's numbers in the order of `fields`, from DUAL on."""
    ck, c, mode = part.cycles, spec.controller, spec.mode
    rules = ChannelRules() if mode == "dram" else spec.rules  # without PIM commands none of them is asked for
    opens = ck("tRCDRD")
    org = part.organization
    closed = {"bank": 1, "group": org.banks_per_group, "channel": org.banks}[spec.pim_precharge]
    values = {
        f.DUAL: mode == "dual",
        f.SINGLE: mode == "blocked",
        f.ENTRIES_MAX: c.entries,
        f.QUEUE_MAX: c.queue_entries,
        f.DOTS_MAX: c.pim_queue_entries,
        f.WINDOW: c.window,
        f.CAP: c.row_hit_cap,
        f.DRAIN_IDLE: c.drain_idle,
        f.REFI: ck("tREFI"),
        f.RANKS: part.organization.ranks,
        f.READ_CK: ck("nCL") + ck("nBL"),
        f.PRE_CK: ck("tRTP"),
        f.ACT_CK: opens,
        f.CLOSE_CK: ck("tRP") + opens,
        f.FAW_CK: ck("tFAW"),
        f.FLOOR: c.pim_floor_ck,
        f.OFFERS: c.offers_per_ck,
        f.EXACT_GROUP: rules.group_counted,
        f.LATE_GEMV: rules.gemv_answers_last,
        f.CLOSED: closed if mode == "dual" else 1,
        f.PER_GROUP: org.banks_per_group,
        f.WHOLE: rules.tiles_whole,
        f.EXACT_SLACK: rules.slack_exact,
        f.COLUMNS: org.columns,
        f.BANKS: org.banks,
        f.PER_RANK: org.banks // org.ranks,
        f.GROUPS: org.banks // org.banks_per_group,
        f.REFRESH_CK: ck("tREFI") // org.ranks,
    }
    if mode != "dram":
        values |= {f.COPY_CK: ck("nGWRITE"), f.COMP_CK: ck("nCOMP"), f.GEMV_CK: ck("nGEMV"), f.TREE_CK: ck("nTREE")}
        values[f.LEAST_COMPS] = ck("nGEMV") // max(ck("nCOMP"), 1)
    row = np.zeros(f.END_OF_POLICY, np.int64)
    row[list(values)] = list(values.values())
    return row[f.N_STATE :]
