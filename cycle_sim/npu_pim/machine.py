"""Runs a program of operators on an NPU and its PIM channels."""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.pim_channel import PimChannel
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, ceil_div, ps_to_mhz
from pimloom.cycle_sim.cores import cores, raise_if_stopped
from pimloom.cycle_sim.npu_pim import known
from pimloom.cycle_sim.npu_pim.build import build, zeros_in_lines
from pimloom.cycle_sim.npu_pim.crew import Crew
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import fields as f
from pimloom.cycle_sim.npu_pim.kernels import machine
from pimloom.cycle_sim.npu_pim.places import names_of
from pimloom.cycle_sim.npu_pim.program import Builder

SHARED = ("drift", "dot", "left", "done", "turn", "ended", "owner", "open")  # by all channels
SPARE = 64
MOST_THREADS = 4  # of a machine, unless more are asked for; measured with two
LONGEST = 128  # clocks that channels go on without a look at the core; results do not depend on it


class ArrayRule(NamedTuple):
    """How the steps of the arrays follow each other [NPU cycles].

    latency_cyc: from the last row of a step to its result; drains: weights wait for the result of the step before;
    clamped: no step starts before its operands are there. Before a step starts that loads a tile or a vector: empty_cyc
    from its issue in idle arrays, behind_cyc at least from the start of the step before.
    """

    latency_cyc: int
    drains: bool
    clamped: bool
    empty_cyc: tuple[int, int]
    behind_cyc: tuple[int, int]


def overlapped(rows: int, vector_cyc: int = 0, clamped: bool = False) -> ArrayRule:
    """Arrays of NeuPIMs' simulator: weights enter beside the step before. vector_cyc: until a vector stands in them."""
    return ArrayRule(2 * rows - 2, False, clamped, (2 * rows - 1, vector_cyc), (rows, vector_cyc))


def drained(rows: int, vector_cyc: int) -> ArrayRule:
    """Arrays of that simulator's branch without PIM."""
    return ArrayRule(2 * rows - 1, True, True, (rows, vector_cyc), (0, 0))


class Npu(NamedTuple):
    """What the machine needs to know of the NPU.

    clock_ps: of a cycle; 0: as long as a clock of the memory. Whatever the NPU does is seen at a clock of the memory:
    the arrays keep their own time, vector work takes whole clocks. rows: of an array; step_cyc: of a GEMM;
    address_bytes: after which its addresses begin again; hashed: the lines of a block leave in the order of a hash set;
    by_output: results stand in the arrays (output stationary); rule: of the steps, that of NeuPIMs' simulator if None;
    starts_early: a step may start before its operands are there, and vector work beside other work; if not, tasks wait
    for `vector_units` in the order in which they are ready. in_order: tasks and stores of an operator leave in the
    order of the program, one of each in a cycle, and a block takes the next addresses when it leaves; if not, when they
    are ready, with addresses dealt out at the operator's start. shift_bytes: by which blocks begin late; steps: of the
    interconnect in a cycle, 0: requests and responses take a cycle each; late: the end of an operator is noticed a
    cycle later.
    """

    rows: int
    step_cyc: int
    address_bytes: int
    hashed: bool
    by_output: bool = False
    rule: ArrayRule | None = None
    starts_early: bool = True
    vector_units: int = 8
    in_order: bool = False
    shift_bytes: int = 0
    steps: int = 0
    late: bool = False
    clock_ps: int = 0


class Account(NamedTuple):
    """What all channels did before clock `ck`: clocks of all ranks with a row open in the MEM and in the PIM row buffer
    [CK], and commands by name."""

    ck: int
    mem_open_ck: int
    pim_open_ck: int
    commands: dict[str, int]


class Ran(NamedTuple):
    """What came out: per operator in the builder's order its name, start and end [CK], and requests that it sent to the
    memory; commands of all channels by name; clocks in all; accounts, one per operator, of the clock in which its end
    is noticed, all channels having come to it: at most `longest` clocks after its last response. busiest: commands of
    the channel that has most, with COMPs; held: writes that were answered and are still in the controllers; logs: of
    each channel, if asked for, its commands as int64 (n, 4): clock, place in `fields.COMMANDS`, bank, row."""

    operators: tuple[tuple[str, int, int], ...]
    requests: tuple[int, ...]
    commands: dict[str, int]
    total_ck: int
    accounts: tuple[Account, ...]
    busiest: int = 0
    held: dict[str, int] = {}
    logs: tuple[np.ndarray, ...] = ()


class PimError(Exception):
    """The controller reads a result from a bank whose row it closed."""


def run(
    spec: PimChannel,
    channels: int,
    npu: Npu,
    program: Builder,
    *,
    ports: int,
    longest: int = LONGEST,
    log: int = 0,
    threads: int | None = None,
) -> Ran:
    """Run all operators from an idle machine, with `ports` ways into a channel, or as many as the program uses.

    log: keep the commands of each channel, at most so many. threads: that share the channels; results do not
    depend on it. Raises UserError if a channel has more, PimError as NeuPIMs' simulator aborts, Stopped.
    """
    raise_if_stopped()  # what is built from here on takes its time
    ports = max(ports, program.ports)
    part = spec.part.organization
    line_bytes = part.access_bits // BITS_PER_BYTE
    widest = program.widest // line_bytes + 3
    numbers = _numbers(spec, channels, npu, program, ports, longest)
    packed, commands, owner = program.finish(numbers, widest, npu.vector_units)
    room = program.most_at_once(channels, line_bytes) + SPARE
    one = build(
        spec,
        room,
        ports=ports,
        groups=len(owner),
        logging=log > 0,
        log=log + 1,
        steps=npu.steps,
        answers=int(numbers[k.ANSWERS]) * longest + spec.controller.window + SPARE,
    )
    mhz = ps_to_mhz(spec.part.tCK_ps)
    packed.sums[:] = 0, 0, 1 / mhz, 1 / (mhz * max(npu.steps, 1))  # the simulator's periods, in us
    one = one._replace(owner=owner, dot=commands, open=np.zeros(len(program.operators), np.int64))
    file, logs = (None if log else known.file_of((packed, one), channels)), tuple[np.ndarray, ...]()
    left = known.recall(file)
    if left is None:
        chs = _stack(one, channels)
        _run(packed, chs, log, threads)
        logs = tuple(chs.command[c, : chs.state[c, f.N_COMMANDS]].copy() for c in range(channels if log else 0))
        held = np.asarray((chs.state[:, f.LENGTH_AT + f.WRITES] + chs.state[:, f.QUEUED]).sum())
        left = known.Left(packed.op[:, [k.START, k.END, k.REQUESTS]], packed.account, chs.tally, held)
        known.keep(file, left)
    return _ran(program, left, names_of(compile_table(spec.device())), logs)


def _run(packed: k.Program, chs: f.Channel, log: int, threads: int | None) -> None:
    channels = len(chs.state)
    chs.state[:, f.NUMBER] = np.arange(channels)
    with Crew(packed, chs, min(threads or min(cores(), MOST_THREADS), channels) - 1) as crew:
        code = crew.run()
    if log and chs.state[:, f.N_COMMANDS].max() > log:  # the channel stopped there
        raise UserError(f"a channel has more than the {log} commands that its log holds; a run without log counts them")
    assert code != machine.FULL, "room is for all requests of two operators"
    if code == machine.STUCK:
        raise PimError("PIM reads a result from a bank whose row was closed for a refresh")
    if code == machine.WAITING:
        raise PimError("requests of a channel wait for one another for ever")


def _ran(program: Builder, left: known.Left, names: Sequence[str], logs: tuple[np.ndarray, ...]) -> Ran:
    ops, held = left.op.tolist(), int(left.held)
    return Ran(
        tuple((o.name, start, end) for o, (start, end, _) in zip(program.operators, ops, strict=True)),
        tuple(requests for _, _, requests in ops),
        _by_name(names, left.tally.sum(axis=0).tolist()),
        max(end for _, end, _ in ops),
        tuple(_account(names, row) for row in left.account.tolist()),
        int(left.tally.sum(axis=1).max()),
        {names[f.WR]: held} if held else {},
        logs,
    )


def _account(names: Sequence[str], row: list[int]) -> Account:
    return Account(row[k.CLOCK], row[k.MEM_OPEN], row[k.PIM_OPEN], _by_name(names, row[k.COMMAND :]))


def _by_name(names: Sequence[str], tally: list[int]) -> dict[str, int]:
    return {name: n for name, n in zip(names, tally, strict=True) if n}


def _numbers(spec: PimChannel, channels: int, npu: Npu, program: Builder, ports: int, longest: int) -> np.ndarray:
    org = spec.part.organization
    found = np.zeros(k.N_NPU, np.int64)
    rule = npu.rule or overlapped(npu.rows)
    common = gcd(spec.part.tCK_ps, npu.clock_ps or spec.part.tCK_ps)
    cycle = (npu.clock_ps or spec.part.tCK_ps) // common
    found[[k.CLOCK_TICKS, k.CYCLE_TICKS]] = spec.part.tCK_ps // common, cycle
    found[[k.LATENCY, k.DRAINS]] = rule.latency_cyc * cycle, rule.drains
    found[k.CLAMPED] = rule.clamped or not npu.starts_early
    for loaded, empty, behind in zip((k.TILE, k.VECTOR), rule.empty_cyc, rule.behind_cyc, strict=True):
        found[[k.EMPTY + loaded, k.BEHIND + loaded]] = empty * cycle, behind * cycle
    found[[k.ROWS, k.STEP, k.WRAP]] = npu.rows * cycle, npu.step_cyc * cycle, npu.address_bytes
    found[k.LINE] = org.access_bits // BITS_PER_BYTE
    found[[k.COLUMN_BITS, k.CHANNEL_BITS]] = org.columns.bit_length() - 1, channels.bit_length() - 1
    found[k.BANKS] = org.banks
    found[[k.HASHED, k.BY_OUTPUT, k.LONGEST]] = npu.hashed, npu.by_output, longest
    found[[k.IN_ORDER, k.SHIFT, k.LATE]] = npu.in_order, npu.shift_bytes, npu.late
    found[k.WAITS_FOR_UNIT] = not npu.starts_early
    found[k.DISPATCHED] = -1
    # writes are answered when they enter; a COMP, a GWRITE, and a GEMV or READRES once a clock each; reads of one line
    # at once
    alike = ceil_div(found[k.LINE], max(program.narrowest, 1)) + 1
    found[k.ANSWERS] = ports * spec.controller.offers_per_ck + 3 + alike
    return found


def _stack(one: f.Channel, channels: int) -> f.Channel:
    """`channels` copies of a channel side by side; what all share, once."""

    def copies(x: np.ndarray) -> np.ndarray:
        found = zeros_in_lines((channels, *x.shape), x.dtype)
        if x.any():
            found[:] = x
        return found

    device = one.device._replace(bound=copies(one.device.bound), ring=copies(one.device.ring))
    arrays = {name: getattr(one, name) for name in f.Channel._fields[1:]}
    return f.Channel(device, **{name: x if name in SHARED else copies(x) for name, x in arrays.items()})
