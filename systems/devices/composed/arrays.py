"""Systolic arrays with vector units: each different operator is simulated once, from an idle machine."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pimloom.arch.command import ON_THE_PINS
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import System
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, ceil_div, mhz_to_ps
from pimloom.cycle_sim.npu_pim.machine import run
from pimloom.mappers.kv import Shape
from pimloom.systems.devices.composed.npu_system import npu_system
from pimloom.systems.devices.composed.price import Price
from pimloom.systems.devices.npu_pim.attention import Placed, attention
from pimloom.systems.devices.npu_pim.laid import channel_of
from pimloom.systems.devices.npu_pim.npu_program import NpuProgram
from pimloom.systems.devices.npu_pim.serve import PORTS
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.workload.batch import seen
from pimloom.workload.op import Op


class ArraysOf:
    """See `Unit`. K and V are stored with the product that makes them: writing them takes no time of its own."""

    fuses = True
    heads = 1

    def __init__(self, system: System, name: str, llm: LlmSpec) -> None:
        self._alone = npu_system(system, name)
        spec, part = self._alone.of_kind(NpuPimSystem), self._alone.memory
        self._spec, self._part, org = spec, part, part.organization
        row = org.row_bytes * BITS_PER_BYTE // spec.npu.element_bits
        shape = Shape(llm.num_attention_heads, llm.num_key_value_heads, llm.head_dim, row, org.banks, 0, llm.head_dim)
        self._shard = Shard(llm, spec, shape, 1)
        self._known: dict[tuple[Op, ...], Price] = {}

    def refuses(self, op: Op) -> str | None:
        """Nothing."""
        return None

    def price(self, ops: Sequence[Op]) -> Price:
        """See `Unit`."""
        asked = tuple(replace(op, name=f"x.{op.kind}", layers=(), after=()) for op in ops)
        if asked not in self._known:
            self._known[asked] = self._simulated(asked)
        return self._known[asked]

    def _simulated(self, ops: tuple[Op, ...]) -> Price:
        program = NpuProgram(self._shard)
        if len(ops) > 1:
            attention(program, ops, [Placed(at, None) for at in ops[0].requests], (), ())
        else:
            program.one_by_one(list(_as_built(ops[0])), ())
        if not program.builder.operators:
            return Price(0)
        spec, part, channels = self._spec, self._part, self._spec.dram.channels
        ran = run(channel_of(self._alone), channels, self._shard.machine, program.builder, ports=PORTS)
        pins = compile_table(part).total(ran.commands, ON_THE_PINS)
        macs, cells = sum(work.macs for work in program.work), spec.npu.arrays * spec.npu.rows**2
        return Price(
            ran.total_ck * part.tCK_ps,
            ran.commands,
            pins * part.organization.access_bits // BITS_PER_BYTE,
            ceil_div(macs, cells) * mhz_to_ps(spec.npu.clock_mhz),
            ceil_div(pins * part.cycles("nBL"), channels) * part.tCK_ps,
            ceil_div(sum(ran.commands.values()), channels) * part.tCK_ps,
        )


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
        case "activation" | "add" | "multiply" | "embedding":
            yield Op(name=op.name, kind="add", rows=op.rows, n_out=op.n_out, terms=op.terms)
        case "sampling":
            yield Op(name=op.name, kind="add", rows=op.rows, n_out=op.n_in)


unit = ArraysOf
