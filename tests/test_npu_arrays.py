"""Systolic arrays, vector units and scratchpads by themselves, against models that go tick by tick."""

import json
from itertools import product
from typing import cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu.arrays import Dataflow, Systolic, gemm, phases
from pimloom.cycle_sim.npu.scratchpad import double_buffered
from pimloom.cycle_sim.npu.vectors import VectorUnits, vector_cyc, vector_schedule
from pimloom.cycle_sim.npu_pim import machine as pim_machine
from pimloom.cycle_sim.npu_pim.build import build
from pimloom.cycle_sim.npu_pim.crew import Crew
from pimloom.cycle_sim.npu_pim.kernels import core as k
from pimloom.cycle_sim.npu_pim.kernels import machine
from pimloom.cycle_sim.npu_pim.program import Builder
from tests import naive_systolic
from tests.command import call
from tests.neupims_engine import spec

pytestmark = pytest.mark.usefixtures("each_program_runs")

KINDS = list(product(("ws", "os"), (False, True)))

# --- a GEMM on an array


def check(kind, rows, columns, m, depth, n):
    dataflow, overlapped = kind
    numbers = np.random.default_rng((m, depth, n))
    a, b = numbers.integers(-9, 10, (m, depth)), numbers.integers(-9, 10, (depth, n))
    moved = naive_systolic.earliest(dataflow, a, b, rows, columns, overlapped)
    assert (moved.product == a @ b).all()
    found = gemm(Systolic(rows, columns, dataflow, overlapped), m, depth, n)
    assert found.total_cyc == moved.cycles
    assert found.macs == moved.macs
    assert (found.activation_reads, found.weight_reads) == (moved.entered["left"], moved.entered["top"])
    assert found.output_writes == moved.left
    assert found.sum_reads == found.output_writes - m * n
    assert found.utilisation == pytest.approx(moved.macs / (moved.cycles * rows * columns))


SIZE, SIDE = st.integers(1, 7), st.integers(1, 4)


@settings(max_examples=60)
@given(st.sampled_from(KINDS), SIDE, SIDE, SIZE, SIZE, SIZE)
@example(("ws", True), 1, 4, 1, 1, 5)  # the first tile, four columns wide, ends after the second, one wide
@example(("os", True), 1, 4, 1, 1, 5)
@example(("os", True), 4, 1, 6, 1, 1)  # results go down more slowly than they are made
@example(("ws", True), 4, 2, 1, 7, 3)  # weights come more slowly than they are used
def test_an_array_that_moves_its_operands_takes_the_same_cycles(kind, rows, columns, m, depth, n):
    check(kind, rows, columns, m, depth, n)


@pytest.mark.slow
@settings(max_examples=500)
@given(st.sampled_from(KINDS), st.integers(1, 6), st.integers(1, 6), *[st.integers(1, 13)] * 3)
def test_more_arrays(kind, rows, columns, m, depth, n):
    check(kind, rows, columns, m, depth, n)


def test_one_element_by_hand():
    """ws: weight in 0, product in 1, 2, 3. os: products in 0, 1, 2, result out in 3."""
    assert gemm(Systolic(1, 1, "ws"), 3, 1, 1).total_cyc == 4
    assert gemm(Systolic(1, 1, "os"), 1, 3, 1).total_cyc == 4


@pytest.mark.parametrize(("dataflow", "overlapped"), KINDS)
def test_phases_make_a_tile_and_tiles_make_a_gemm(dataflow, overlapped):
    array = Systolic(128, 64, dataflow)
    m, depth, n = 300, 200, 100
    along, streamed = (depth, m) if dataflow == "ws" else (m, depth)
    cut = naive_systolic.tiles(along, n, 128, 64)
    apart = sum(phases(array, t.rows, t.columns, streamed).total_cyc for t in cut)
    found = gemm(Systolic(128, 64, dataflow, overlapped), m, depth, n)
    assert found.folds == len(cut)
    assert found.total_cyc < apart if overlapped else found.total_cyc == apart


def test_overlapped_preloads_cost_nothing_behind_a_longer_stream():
    """24 tiles of 16 rows stream through each of eight arrays for each k: the specification's ideal, 384."""
    array = Systolic(128, 128, "ws", overlapped=True)
    assert gemm(array, 24 * 16, 256, 128).total_cyc - gemm(array, 24 * 16, 128, 128).total_cyc == 384


def test_a_long_stream_fills_an_overlapped_array():
    for dataflow in ("ws", "os"):
        assert gemm(Systolic(128, 128, dataflow, True), 2**20, 2**20, 2**20).utilisation > 0.999


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Systolic(0, 4, "ws"), "array: expected at least one row and one column, got 0 x 4"),
        (lambda: Systolic(4, 4, cast(Dataflow, "is")), "dataflow: expected one of ws, os, got is"),
        (lambda: gemm(Systolic(4, 4, "ws"), 4, 0, 4), "GEMM: expected sizes of at least 1, got 4 x 0 x 4"),
        (lambda: phases(Systolic(4, 4, "os"), 5, 4, 9), "tile: expected at most 4 x 4, got 5 x 4"),
        (lambda: VectorUnits(0, 8), "vector units: expected at least one of one lane, got 0 of 8"),
        (lambda: vector_cyc(VectorUnits(8, 1), "norm", 9), "vector_lanes: expected at least 2 to sum 9 elements"),
        (lambda: vector_schedule([1], [2, 3], 4), "vector schedule: expected at least one unit"),
        (lambda: double_buffered([1], [2, 3]), "double buffer: expected as many loads as computations"),
    ],
)
def test_what_cannot_be(make, said):
    with pytest.raises(UserError, match=said):
        make()


# --- SCALE-Sim

# Measured: scalesim 3.0.0 (PyPI) with numpy 2.2.6, `python -m scalesim.scale -i gemm -s N -c … -t … -l … -p …`,
# InterfaceBandwidth CALC, SRAMs of 1024 kB, no custom layout, no sparsity. Dataflow, rows, columns, M, K, N -> "Total
# Cycles" of COMPUTE_REPORT.csv (stall cycles 0), SRAM reads of IFMAP and filter and SRAM writes of OFMAP in
# DETAILED_ACCESS_REPORT.csv.
SCALE_SIM = {
    ("ws", 4, 4, 4, 4, 4): (13, 16, 16, 16),
    ("ws", 4, 4, 8, 8, 8): (71, 128, 64, 128),
    ("ws", 4, 8, 10, 7, 13): (95, 140, 91, 260),
    ("ws", 8, 4, 1, 9, 5): (75, 18, 45, 10),
    ("ws", 3, 5, 7, 11, 2): (63, 77, 22, 56),
    ("ws", 32, 32, 100, 70, 50): (1163, 14000, 3500, 15000),
    ("os", 4, 4, 4, 4, 4): (9, 16, 16, 24),
    ("os", 4, 4, 8, 8, 8): (55, 128, 128, 96),
    ("os", 4, 8, 10, 7, 13): (101, 140, 273, 202),
    ("os", 8, 4, 1, 9, 5): (37, 18, 45, 29),
    ("os", 3, 5, 7, 11, 2): (50, 77, 66, 38),
    ("os", 32, 32, 100, 70, 50): (1055, 14000, 14000, 5512),
}


def in_scale_sim(dataflow, rows, columns, m, depth, n):
    """What SCALE-Sim counts: every tile as if it were full; with os no time for the results to go down; and the
    number of the last cycle, from 0. Its OFMAP writes have rows + columns too many for each os tile."""
    array = Systolic(rows, columns, dataflow)
    true = gemm(array, m, depth, n)
    along = depth if dataflow == "ws" else m
    full = ceil_div(along, rows) * rows, ceil_div(n, columns) * columns
    padded = gemm(array, m, *full) if dataflow == "ws" else gemm(array, full[0], depth, full[1])
    undrained, too_many = (0, 0) if dataflow == "ws" else (true.folds * rows, true.folds * (rows + columns))
    return (
        padded.total_cyc - undrained - 1,
        true.activation_reads,
        true.weight_reads,
        true.output_writes + too_many,
    )


@pytest.mark.parametrize("given", SCALE_SIM, ids=str)
def test_scale_sim_counted(given):
    assert in_scale_sim(*given) == SCALE_SIM[given]


def scale_sim(module, name):
    return getattr(pytest.importorskip(f"scalesim.{module}", reason="pip install scalesim==3.0.0"), name)


def test_scale_sim_where_it_is_installed():
    """Its demand matrices have a row for each cycle; its memory, which needs an older numpy, is left out."""
    scale_config = scale_sim("scale_config", "scale_config")
    numbers = np.random.default_rng(5)
    for dataflow in ("ws", "os"):
        make = scale_sim(f"compute.systolic_compute_{dataflow}", f"systolic_compute_{dataflow}")
        for rows, columns, m, depth, n in numbers.integers(1, 20, (50, 5)).tolist():
            config, theirs = scale_config(), make()
            config.array_rows, config.array_cols = rows, columns
            config.valid_conf_flag = True
            theirs.set_params(config, np.ones((m, depth)), np.ones((m, n)), np.ones((depth, n)))
            cycles = {len(matrix) for matrix in theirs.get_demand_matrices()}
            reads = theirs.get_ifmap_requests(), theirs.get_filter_requests(), theirs.get_ofmap_requests()
            last, *ours = in_scale_sim(dataflow, rows, columns, m, depth, n)
            assert (cycles, reads) == ({last + 1}, tuple(ours)), (dataflow, rows, columns, m, depth, n)


# --- vector units

NEUPIMS = VectorUnits(units=8, lanes=128)


def test_vector_operations_of_the_specification():
    """256 rows of LayerNorm at width 4096: 256 * 229 / 8 cycles. No elements: 5, 0 and 0 cycles."""
    assert vector_cyc(NEUPIMS, "norm", 4096, 256) == 7328
    assert [vector_cyc(NEUPIMS, op, 0) for op in ("norm", "add", "gelu")] == [5, 0, 0]
    assert vector_cyc(NEUPIMS, "softmax", 128) == 2 * 1 + 3 * 1
    assert vector_cyc(NEUPIMS, "softmax", 129) == 2 * (2 + 1) + 3 * 2
    assert vector_cyc(NEUPIMS, "softmax", 16385) == 2 * (129 + 2 + 1) + 3 * 129
    assert vector_cyc(NEUPIMS, "gelu", 4097, rows=9) == 2 * 33


def naive_vectors(ready, cycles, units, released):
    """Clock by clock: (start, unit) of each operation."""
    waiting = sorted(range(len(ready)), key=lambda i: ready[i])
    ends: list[list[int]] = [[] for _ in range(units)]  # of what each unit does
    found, t = {}, 0
    while waiting:
        while waiting and ready[waiting[0]] <= t:
            empty = [u for u in range(units) if all(end <= t for end in ends[u])]
            if not empty and not released:
                break
            i, unit = waiting.pop(0), empty[0] if empty else 0
            ends[unit].append(t + cycles[i])
            found[i] = t, unit
        t += 1
    return [found[i] for i in range(len(ready))]


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), max_size=14), st.integers(1, 4), st.booleans())
@example([(0, 10), (0, 10), (0, 1), (5, 1)], 2, False)  # the last may not overtake the one that waits
def test_vector_units_are_taken_clock_by_clock(operations, units, released):
    ready, cycles = [a for a, _ in operations], [b for _, b in operations]
    found = vector_schedule(ready, cycles, units, released=released)
    assert list(zip(found.start_cyc.tolist(), found.unit.tolist(), strict=True)) == naive_vectors(
        ready, cycles, units, released
    )
    assert (found.end_cyc - found.start_cyc).tolist() == cycles


# --- scratchpad


def naive_halves(load, compute):
    """Clock by clock: two halves, each empty, being loaded, full or in use."""
    halves: list = [None, None]  # (tile, state)
    loading = computing = None  # tile, clocks left
    next_load = next_compute = t = 0
    found = [[0] * len(load) for _ in range(4)]
    while next_compute < len(load) or computing:
        while True:  # what takes no time happens at once
            if computing and computing[1] == 0:
                found[3][computing[0]] = t
                halves[computing[0] % 2], computing = None, None
            elif loading and loading[1] == 0:
                found[1][loading[0]] = t
                halves[loading[0] % 2], loading = (loading[0], "full"), None
            elif not loading and next_load < len(load) and halves[next_load % 2] is None:
                found[0][next_load] = t
                halves[next_load % 2], loading = (next_load, "loading"), [next_load, load[next_load]]
                next_load += 1
            elif not computing and halves[next_compute % 2] == (next_compute, "full"):
                found[2][next_compute] = t
                computing = [next_compute, compute[next_compute]]
                next_compute += 1
            else:
                break
        for work in (loading, computing):
            if work:
                work[1] -= 1
        t += 1
    return found


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=9))
def test_a_scratchpad_of_two_halves(tiles):
    load, compute = [a for a, _ in tiles], [b for _, b in tiles]
    assert [x.tolist() for x in double_buffered(load, compute)] == naive_halves(load, compute)


@pytest.mark.parametrize(("load", "compute"), [(4, 6), (6, 4), (5, 5), (0, 3)])
def test_equal_tiles_have_a_closed_form(load, compute):
    for n in (1, 2, 3, 50):
        found = double_buffered([load] * n, [compute] * n)
        assert found.compute_end_cyc[-1] == load + (n - 1) * max(load, compute) + compute


# --- output-stationary arrays of the machine


def run_steps(made):
    """A program on output-stationary arrays of 128 rows, 16 cycles a step: the end of the last step, ends of groups."""
    device = spec("DUAL")
    npu = pim_machine.Npu(rows=128, step_cyc=16, address_bytes=2**20, hashed=False, by_output=True)
    packed, commands, owner = made.finish(pim_machine._numbers(device, 2, npu, made, 2, 128), 4, 8)
    channel = build(device, 64, ports=2, groups=len(owner), logging=False)
    channel = channel._replace(owner=owner, dot=commands, open=np.zeros(1, np.int64))
    channels = pim_machine._stack(channel, 2)
    with Crew(packed, channels, 0) as crew:
        assert crew.run() == machine.ALL_DONE
    return packed.array[k.ENDED], channels.done


@pytest.mark.parametrize(("depth", "across"), [(1, 1), (1, 5), (3, 4), (8, 2), (9, 3)])
def test_os_steps_of_the_machine_are_a_gemm_on_an_array(depth, across):
    """Operands are there, so eight arrays take 16 of the 128 products of each step: K = 16 depth on one array."""
    made = Builder()
    op = made.operator("gemm", (), in_order=True, least=1)
    for _ in range(across):
        for i in range(depth):
            made.step(op, k.GEMM, (), store=made.store(op, 64) if i == depth - 1 else -1)
    found = gemm(Systolic(128, 128, "os", overlapped=True), 128, 16 * depth, 128 * across)
    assert run_steps(made)[0] == 1 + found.total_cyc  # the first step starts a clock after its operator


def test_an_os_step_waits_for_its_operands():
    """The step before is on its way, and would let it start after 16 cycles."""
    made = Builder()
    op = made.operator("gemm", (), in_order=True, least=1)
    operand = made.load(op, 64)
    made.step(op, k.GEMM, ())
    made.step(op, k.GEMM, (operand,), store=made.store(op, 64))
    ended, arrived = run_steps(made)
    assert 16 < arrived[operand] < 128
    assert ended == arrived[operand] + gemm(Systolic(128, 128, "os"), 128, 16, 128).total_cyc


def run_tiny(tmp_path, dataflow):
    (tmp_path / "r.csv").write_text("seq_len\n40\n")
    shape = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 32000}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "intermediate_size": 1024, **shape}))
    options = ("--set", "interleave.sub_batches=1", "--set", f"npu.dataflow={dataflow}", "--json", "-")
    return call("run", "neupims", "--model", tmp_path, "--requests", tmp_path / "r.csv", *options)


def test_a_layer_runs_on_output_stationary_arrays(tmp_path):
    """Every operand is read once either way, and every result is written once."""
    ws, os = (json.loads(run_tiny(tmp_path, dataflow).out) for dataflow in ("ws", "os"))
    assert all(ws["commands"][name] == os["commands"][name] for name in ("RD", "PIM_GEMV", "COMP"))
    assert ws["total_cyc"] != os["total_cyc"]
    done = run_tiny(tmp_path, "is")
    assert done.code == 2 and "npu.dataflow: expected one of os, ws, got is" in done.err
