"""Operators by themselves on the arrays of an NPU: each different one is simulated once, from an idle machine."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as replaced
from functools import reduce
from typing import NamedTuple

from msgspec.structs import replace

from pimloom.arch.command import ON_THE_PINS
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import Interleave, NpuPimSystem
from pimloom.arch.part_channel import one_channel, without_pim
from pimloom.arch.system import System
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, ceil_div, mhz_to_ps
from pimloom.cycle_sim.npu_pim.machine import Account, run
from pimloom.energy.npu_pim import Work
from pimloom.mappers.kv import Shape
from pimloom.systems.devices.npu_pim.attention import Placed, attention
from pimloom.systems.devices.npu_pim.laid import channel_of
from pimloom.systems.devices.npu_pim.npu_program import NpuProgram
from pimloom.systems.devices.npu_pim.serve import PORTS
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.workload.batch import seen
from pimloom.workload.op import Op


class Took(NamedTuple):
    """What an operator took: its time, commands of all channels, bytes over their pins; by itself at the full rate of
    what does it, its products, its bytes and its commands; what the NPU did, and the account of all channels. Stores
    that are still in the controllers when it ends are among commands, bytes and the account, not in its time."""

    ps: int = 0
    commands: Mapping[str, int] = {}
    interface_bytes: int = 0
    compute_ps: int = 0
    memory_ps: int = 0
    command_ps: int = 0
    work: Work = Work()
    account: Account = Account(0, 0, 0, {})


class ArraysAlone:
    """The arrays of a system without PIM, which have its memory to themselves."""

    def __init__(self, system: System, llm: LlmSpec) -> None:
        self._system, self._spec, self._part = system, system.of_kind(NpuPimSystem), system.memory
        spec, org = self._spec, self._part.organization
        row = org.row_bytes * BITS_PER_BYTE // spec.npu.element_bits
        shape = Shape(llm.num_attention_heads, llm.num_key_value_heads, llm.head_dim, row, org.banks, 0, llm.head_dim)
        self._shard = Shard(llm, spec, shape, 1, org.access_bits // BITS_PER_BYTE)
        self._known: dict[tuple[Op, ...], Took] = {}

    def took(self, ops: Sequence[Op]) -> Took:
        """One operator; or scores, softmax and values together."""
        asked = tuple(replace(op, name=f"x.{op.kind}", layers=(), after=()) for op in ops)
        if asked not in self._known:
            self._known[asked] = self._simulated(asked)
        return self._known[asked]

    def _simulated(self, ops: tuple[Op, ...]) -> Took:
        program = NpuProgram(self._shard)
        if len(ops) > 1:
            attention(program, ops, [Placed(at, None) for at in ops[0].requests], (), ())
        else:
            program.one_by_one(list(_as_built(ops[0])), ())
        if not program.builder.operators:
            return Took()
        spec, part, channels = self._spec, self._part, self._spec.dram.channels
        ran = run(channel_of(self._system), channels, self._shard.machine, program.builder, ports=PORTS)
        pins = compile_table(part).total(ran.commands, ON_THE_PINS)
        written, account = Counter(ran.commands), max(ran.accounts, key=lambda account: account.ck)
        written.update(ran.held)  # they come later: they take energy, and none of its time
        work, cells = reduce(Work.plus, program.work), spec.npu.arrays * spec.npu.rows**2
        return Took(
            ran.total_ck * part.tCK_ps,
            dict(written),
            compile_table(part).total(written, ON_THE_PINS) * part.organization.access_bits // BITS_PER_BYTE,
            ceil_div(work.macs, cells) * mhz_to_ps(spec.npu.clock_mhz),
            ceil_div(pins * part.cycles("nBL"), channels) * part.tCK_ps,
            ceil_div(sum(ran.commands.values()), channels) * part.tCK_ps,
            work,
            account._replace(commands=dict(Counter(account.commands) + Counter(ran.held))),
        )


def without_its_pim(system: System) -> System:
    """An NPU as if its memory had no PIM."""
    spec = system.of_kind(NpuPimSystem)
    dram = replace(spec.dram, lanes=0, row_buffers="none", pim_precharge="bank")
    npu = replace(spec, dram=dram, interleave=Interleave(1))
    return replaced(system, spec=npu, part=one_channel(without_pim(system.memory)))


def _as_built(op: Op) -> Iterator[Op]:
    """An operator as products in tiles and passes of the vector units over rows."""
    match op.kind:
        case "gemm" | "norm" | "rotary" | "router":
            yield op
        case "score" | "value":
            for at in op.requests:
                tokens, rows = seen(at, op.window), op.heads // op.kv_heads * at.new
                n_in, n_out = (op.head_dim, tokens) if op.kind == "score" else (tokens, op.head_dim)
                each = (rows,) * op.kv_heads
                yield Op(name=op.name, kind="gemm", rows=sum(each), each=each, n_in=n_in, n_out=n_out)
        case "softmax":
            for at in op.requests:
                rows = op.heads * at.new
                yield Op(name=op.name, kind="softmax", rows=rows, n_out=seen(at, op.window))
        case "embedding":  # of a row the share of this device's part of the vocabulary, on average
            yield replace(op, n_in=ceil_div(op.n_out, op.devices), held=0)
        case "activation" | "add" | "multiply":
            yield Op(name=op.name, kind="add", rows=op.rows, n_out=op.n_out, terms=op.terms)
        case "sampling":
            yield op
