# amaranth: UnusedElaboratable=no
"""A whole small machine: a token of a toy decoder on an NPU and two PIM channels, in gates, numbers and clocks."""

from random import Random

import msgspec
import numpy as np
import pytest
from amaranth.hdl import Module

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.arch.units import Time
from pimloom.cycle_sim.npu.arrays import Systolic, gemm
from pimloom.mappers.interleave import turns
from pimloom.rtl.flow.lookup import build
from pimloom.rtl.flow.scenes.values import BF16
from pimloom.rtl.flow.system import verify as flow
from pimloom.rtl.flow.system.clocks import gemm_clocks, vector_clocks
from pimloom.rtl.flow.system.toy import Toy, decode, dots, draw_numbers, in_float64
from pimloom.rtl.flow.verify import verify
from pimloom.rtl.npu.shape import ArrayShape
from pimloom.rtl.npu.vector import Op, VectorUnit
from pimloom.rtl.system import machine
from pimloom.rtl.system.columns import Merge
from pimloom.rtl.system.plan import LANES, MOVE
from tests.simulators import needs
from tests.slow import slow

PART = load_part("hbm2_neupims").value
TWO_LAYERS = Toy(width=8, inner=16, layers=2, contexts=((5, 9), (12, 1)))
ONE_LAYER = Toy(width=8, inner=16, contexts=((5,), (12,)))  # longer than a refresh interval


@pytest.mark.parametrize("seed", range(6))
def test_the_numbers_are_those_of_a_decoder(seed):
    """Attention over all tokens, residuals, norms: bfloat16 is 8 bits, and errors of a few operations add up."""
    toy = flow.draw_toy(Random(seed).randint(1, 3), 1 + seed % 2, seed)
    numbers = draw_numbers(toy, seed)
    made, exact = decode(toy, numbers, LANES)[-1].x.astype(float), in_float64(toy, numbers)
    assert np.abs(made - exact).max() < 0.02 * toy.layers * np.abs(exact).max()


def test_tokens_of_the_past_count():
    toy = Toy(contexts=((5,), (7,)))
    numbers = draw_numbers(toy, 3)
    numbers.layers[0].values[1][2] *= 2
    other = decode(toy, numbers, LANES)[-1].x
    same = decode(toy, draw_numbers(toy, 3), LANES)[-1].x
    assert np.array_equal(other[0], same[0]) and not np.array_equal(other[1], same[1])


@pytest.mark.parametrize("n", [1, 4, 5, 16])
def test_pim_sums_lane_by_lane(n):
    rows, vector = np.arange(3 * n).reshape(3, n) % 7, np.arange(n) % 5
    found = dots(rows.astype(BF16), vector.astype(BF16), LANES)  # exact, so small
    assert found.astype(int).tolist() == (rows @ vector).tolist()


@pytest.mark.parametrize("side", [2, 4])
@pytest.mark.parametrize("m", [1, 3, 4, 7, 16])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 5), (4, 1), (3, 4)])
def test_a_gemm_takes_the_array_model_s_cycles_between_first_operands_and_last_words(side, m, k, n):
    """A tile of operands before; a register and m words behind. Of several tiles the third waits for the half of the
    first, which is free when its last operand has entered the last row and column."""
    inside = gemm(Systolic(side, side, "ws", overlapped=True), m, k * side, n * side).total_cyc
    enters, shape = max(max(m, side) + 1, 3), ArrayShape(side, side, "ws")
    found = gemm_clocks(shape, m, k * side, n * side)
    waits = (max(m, side) + m + 2 * side - 2 * max(m, side)) * max(k * n - 1, 0)  # at most, over two tiles
    assert 0 <= found - (enters + inside - 1 + 2 + m) <= waits
    assert k * n > 1 or found == enters + inside - 1 + 2 + m


def test_a_vector_takes_a_pass_or_three():
    unit = VectorUnit(64)
    for n in (1, 5, 48):
        assert vector_clocks(unit, MOVE, n) == n
        assert vector_clocks(unit, Op.ADD, n) - vector_clocks(unit, Op.ADD, 1) == n - 1
        assert vector_clocks(unit, Op.SOFTMAX, n) == 3 * n + 43  # what `Softmax` says, and a clock


@pytest.fixture(scope="module")
def ran():
    case = flow.case_of(PART, TWO_LAYERS, 1)
    return case, flow.run_model(case)[0]


def test_stages_are_the_mapper_s_and_end_with_the_later_unit(ran):
    case, found = ran
    assert [s.turn for s in found.stages] == list(turns(2, range(2)))
    assert [s.turn.stage.name for s in found.stages] == ["A", "B", "C", "D", "E", "F"]
    at = flow.START + 1
    for s in found.stages:
        assert s.start == at and s.end == max(s.npu_end, s.pim_end)
        at = s.end + 1


def test_memory_and_pim_work_side_by_side(ran):
    """Reads of weights between the PIM commands of a stage that has both."""
    case, found = ran
    names, op = case.sizes.plan.table.names, case.sizes.plan.op
    stage = next(s for s in found.stages if s.turn.stage.name == "D")
    for commands in found.commands:
        kinds = [cmd for t, cmd, _, _ in commands if stage.start <= t <= stage.end]
        reads = [i for i, cmd in enumerate(kinds) if cmd == op.rd]
        products = [i for i, cmd in enumerate(kinds) if cmd == op.gemv]
        assert reads and products and min(products) < max(reads), names
    assert {op.gwrite, op.header, op.g_act, op.pim_pre, op.refresh} <= {c[1] for own in found.commands for c in own}


def of_one_layer(part):
    return flow.run_model(flow.case_of(part, ONE_LAYER, 1))[0]


@pytest.fixture(scope="module")
def found_on_the_part():
    return of_one_layer(PART)


@pytest.mark.parametrize("timing", ["nGWRITE", "tRFC", *map(slow, ("tRCDRD", "nCL", "tRP"))])
def test_timings_of_the_part_decide_commands_and_stages(found_on_the_part, timing):
    found, later = found_on_the_part, Time(PART.cycles(timing) + 7)
    bent = of_one_layer(msgspec.structs.replace(PART, timing={**PART.timing, timing: later}))
    assert bent.commands != found.commands and bent.stages != found.stages


@pytest.mark.parametrize(
    ("toy", "said"),
    [
        (Toy(width=12), "heads of 6"),
        (Toy(inner=30), "FFN of 30"),
        (Toy(contexts=((17,), (1,))), "17 tokens"),
    ],
)
def test_what_does_not_fit_is_refused(toy, said):
    with pytest.raises(UserError, match=said) as error:
        flow.case_of(PART, toy, 0)
    assert "\n" not in str(error.value)


def test_parts_without_a_row_buffer_for_pim_are_refused():
    with pytest.raises(UserError, match="hbm2_2000 cannot have block npu_pim_machine: .* needs pim: neupims or newton"):
        build("npu_pim_machine", "hbm2_2000", load_part("hbm2_2000").value)
    newton = msgspec.structs.replace(PART, pim="newton")
    with pytest.raises(UserError, match="npu_pim_machine"):
        build("npu_pim_machine", "newton", newton)


@pytest.mark.slow  # minutes: a netlist of arrays and channels
@pytest.mark.parametrize(("sub_batches", "commands", "seed"), [(2, 1, 0), (2, 2000, 1), (1, 1, 2), (3, 3000, 3)])
def test_gates_make_the_same_numbers_in_the_same_clocks(sub_batches, commands, seed):
    needs("verilator")
    sizes = {"sub_batches": sub_batches}
    (found,) = verify("npu_pim_machine", "hbm2_neupims", commands=commands, seed=seed, sizes=sizes)
    assert (found.mismatches, found.first_mismatch) == (0, None)
    assert found.commands > 1000 and found.cycles > 5000


class WritesFirst(Merge):
    """The other order, wherever both want to go."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.other = Merge(sizes)

    def elaborate(self, platform):
        m = Module()
        m.submodules.other = other = self.other
        m.d.comb += [other.reads.valid.eq(self.writes.valid), other.reads.payload.eq(self.writes.payload)]
        m.d.comb += [other.writes.valid.eq(self.reads.valid), other.writes.payload.eq(self.reads.payload)]
        m.d.comb += [self.writes.ready.eq(other.reads.ready), self.reads.ready.eq(other.writes.ready)]
        m.d.comb += [self.o.valid.eq(other.o.valid), self.o.payload.eq(other.o.payload)]
        m.d.comb += other.o.ready.eq(self.o.ready)
        return m


@pytest.mark.slow
def test_gates_that_order_requests_otherwise_are_found_out(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # the waveform of what differs is kept
    monkeypatch.setattr(machine, "Merge", WritesFirst)
    needs("verilator")
    (found,) = verify("npu_pim_machine", "hbm2_neupims", commands=1)
    assert found.mismatches and "model says" in str(found.first_mismatch)
