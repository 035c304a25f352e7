# amaranth: UnusedElaboratable=no
"""The blocks a user can name: each builds a component from a part."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from amaranth.lib.wiring import Component

from pimloom.arch.asic import ADDERS
from pimloom.arch.error import UserError
from pimloom.arch.optics import Optics, load_optics, switch_table
from pimloom.arch.part import Part
from pimloom.arch.power_up import power_up as power_up_steps
from pimloom.arch.table import compile_table, rule_rows
from pimloom.rtl import bf16, float32
from pimloom.rtl.asic.layernorm import Layernorm
from pimloom.rtl.asic.rmsnorm import Rmsnorm
from pimloom.rtl.asic.softmax import Softmax
from pimloom.rtl.asic.sum import AccumulatePartials, TreeSum
from pimloom.rtl.asic.unary import Exp, Gelu, Reciprocal, Rsqrt, Silu
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.interleave import Interleave
from pimloom.rtl.npu.gemm import Gemm
from pimloom.rtl.npu.shape import ArrayShape, array_shape
from pimloom.rtl.npu.systolic import Systolic
from pimloom.rtl.npu.tiles import TileSequencer
from pimloom.rtl.npu.vector import VectorUnit
from pimloom.rtl.npu_pim.channel import channel_of
from pimloom.rtl.ocs_switch import OcsSwitch
from pimloom.rtl.pim_channel import PimChannel
from pimloom.rtl.pim_unit import PimUnit
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.timer import Timer

LONGEST = 1024  # elements of a vector of softmax and of norms
HOST, NO_DATA = "host", "none"  # who initialises a part, and what data path there is, where no option says
OCSTRX = "ocstrx"  # the optical part of `ocs_switch`, where none is named
FLAT_ELEMENTS = 16  # of an array that is synthesised as one piece; of larger ones each module once
KEPT = 8  # rows that the banks of `pim_channel` hold: on a die they are cell arrays, in Verilog every word has a line


class Block(NamedTuple):
    """`build(part)` makes the component; `summary` is one line for `pimloom rtl list`.

    of_memory: what it is, or whether it can be, depends on the memory part; the others are the same with any part.
    cells: holds cell arrays, which are no logic: not for synthesis, but for its `logic` if there is any by itself.
    optical: made from an optical part; with a memory, from `OCSTRX`. sizes: options of `build` by name, and what each
    has without a word. large(component): whether that is synthesised module by module, unless one asks otherwise.
    unit: "npu" or "asic", whose clock a block of no part has. checks: assertions that are emitted with it: "rules" of
    its memory, "handshakes" of AXI4-Lite. pim: what the memory part has of PIM.
    """

    summary: str
    build: Callable[..., Component]
    of_memory: bool = False
    cells: bool = False
    logic: Callable[..., Component] | None = None
    optical: bool = False
    sizes: Mapping[str, int | str] = {}
    large: Callable[..., bool] = lambda component: False
    unit: str = "asic"
    checks: Sequence[str] = ()
    pim: str = ""

    @property
    def needs(self) -> str:
        """The part that the block is made from, or "" where it is the same without one."""
        memory = f"memory part{' with ' if self.pim else ''}{self.pim}" if self.of_memory else ""
        return f"optical part, {OCSTRX} by default" if self.optical else memory

    @property
    def domain(self) -> str:
        """The domain of its clock: "dram", "optics", "npu" or "asic"."""
        return "dram" if self.of_memory else "optics" if self.optical else self.unit


def _path_controller(part: Part | Optics) -> OcsSwitch:
    return OcsSwitch(switch_table(part if isinstance(part, Optics) else load_optics(OCSTRX).value))


def _core(part: Part, phases: int = 1, power_up: str = HOST, data: str = NO_DATA) -> SequencerAxi:
    if power_up not in (HOST, "core"):
        raise UserError(f"--power-up {power_up}: unknown; known: host (before reset is released), core (after it)")
    if data not in (NO_DATA, "burst"):
        raise UserError(f"--data {data}: unknown; known: none (commands alone), burst (a data path of one burst)")
    steps = power_up_steps(part) if power_up != HOST else ()
    return SequencerAxi(part, phases=phases, steps=steps, data=data != NO_DATA)


def _longest_window(part: Part) -> tuple[int, int]:
    """Window and wait of the rule that looks back farthest."""
    return max((row.window, row.wait) for row in rule_rows(compile_table(part).rules))


BLOCKS: dict[str, Block] = {
    "sequencer": Block(
        "command sequencer: rules, rows, refresh; one stream",
        lambda part, refresh="all_bank": Sequencer(compile_table(part), refresh=refresh),
        of_memory=True,
        sizes={"refresh": "all_bank"},
        checks=["rules"],
    ),
    "sequencer_axi": Block(
        "command core behind AXI4-Lite: a queue, moments of PIM, refresh, recovery",
        _core,
        of_memory=True,
        sizes={"phases": 1, "power_up": HOST, "data": NO_DATA},
        checks=["rules", "handshakes"],
    ),
    "timer": Block(
        "the rule that looks back farthest (tFAW), at one node",
        lambda part: Timer(*_longest_window(part)),
        of_memory=True,
    ),
    "pim_channel": Block(
        f"sequencer, banks of {KEPT} rows, MAC units, global buffer",
        lambda part: PimChannel(part, KEPT),
        of_memory=True,
        pim="PIM units, one rank, one pseudo channel",
        cells=True,
    ),
    "npu_pim_channel": Block(
        f"controller with short queues, banks of {KEPT} rows with two row buffers, PIM units",
        lambda part: channel_of(part, KEPT),
        of_memory=True,
        pim="pim: neupims or newton",
        cells=True,
        logic=lambda part: channel_of(part, KEPT).controller,
        large=lambda controller: True,
        checks=["rules"],
    ),
    "float32_add": Block("float32 adder, combinational", lambda part: float32.Add()),
    "float32_mul": Block("float32 multiplier, combinational", lambda part: float32.Mul()),
    "bf16_mul": Block("bfloat16 multiplier with float32 product, combinational", lambda part: bf16.Mul()),
    "bf16_tree": Block(
        "adder tree of one bank's MAC unit, pipelined", lambda part: PimUnit(part).tree, of_memory=True, pim="PIM units"
    ),
    "pim_unit": Block(
        "MAC unit of one bank: multipliers, adder tree, accumulator, result register",
        PimUnit,
        of_memory=True,
        pim="PIM units",
    ),
    "asic_exp": Block("e**x of a bfloat16 stream, one a clock", lambda part: Exp()),
    "asic_reciprocal": Block("1 / x of a bfloat16 stream, one a clock", lambda part: Reciprocal()),
    "asic_rsqrt": Block("1 / sqrt(x) of a bfloat16 stream, one a clock", lambda part: Rsqrt()),
    "asic_gelu": Block("GELU of a bfloat16 stream, one a clock", lambda part: Gelu()),
    "asic_silu": Block("SiLU of a bfloat16 stream, one a clock", lambda part: Silu()),
    "asic_sum": Block(f"float32 sum in groups of {ADDERS}, 4 elements a clock", lambda part: TreeSum(lanes=4)),
    "asic_partials": Block("partials and bias of one result, added in order", lambda part: AccumulatePartials()),
    "asic_softmax": Block(f"softmax of vectors of up to {LONGEST} bfloat16", lambda part: Softmax(LONGEST)),
    "asic_layernorm": Block(f"LayerNorm of vectors of up to {LONGEST} bfloat16", lambda part: Layernorm(LONGEST)),
    "asic_rmsnorm": Block(f"RMSNorm of vectors of up to {LONGEST} bfloat16", lambda part: Rmsnorm(LONGEST)),
    "npu_vector": Block(
        f"vector unit: addition, GELU, softmax, LayerNorm of up to {LONGEST} bfloat16",
        lambda part: VectorUnit(LONGEST),
        unit="npu",
    ),
    "ocs_switch": Block("path controller of an optical-switch transceiver", _path_controller, optical=True),
    "interleave": Block(
        "interleave controller: which sub-batch on the NPU and which on PIM, stage by stage",
        lambda part, sub_batches=2: Interleave(sub_batches),
        unit="npu",
        sizes={"sub_batches": 2},
    ),
    "systolic": Block(
        "systolic array, weight or output stationary, 4 x 4 or any size",
        lambda part, **sizes: Systolic(array_shape(**sizes)),
        sizes=ArrayShape()._asdict(),
        unit="npu",
        large=lambda array: array.shape.rows * array.shape.columns > FLAT_ELEMENTS,
    ),
    "npu_tiles": Block(
        "tile sequencer of an array: which tile of a GEMM when",
        lambda part, **sizes: TileSequencer(array_shape(**sizes)),
        sizes=ArrayShape()._asdict(),
        unit="npu",
    ),
    "npu_gemm": Block(
        "array, tile sequencer, pads and accumulator of two halves",
        lambda part, **sizes: Gemm(array_shape(**sizes)),
        cells=True,
        sizes=ArrayShape()._asdict(),
        unit="npu",
    ),
}
