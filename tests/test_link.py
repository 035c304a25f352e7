"""Rings of devices, pipelines of micro-batches, and decode iterations on several devices."""

import json
import re
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.link import Link
from pimloom.arch.llm import load_llm
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import load_system
from pimloom.cycle_sim.link import all_gather_ps, all_reduce_bytes, all_reduce_ps, reduce_scatter_ps, send_ps
from pimloom.cycle_sim.pipeline import flow
from pimloom.systems.devices.npu_pim.exchange import exchange
from pimloom.systems.devices.npu_pim.parallel import stage_ranges
from pimloom.systems.devices.npu_pim.share import shard_of
from pimloom.workload.op import Op
from tests.command import call

RING, RINGS = {"link.topology": "ring"}, ("--set", "link.topology=ring")
SIMPLE = Link(gbps=8, latency_ns=5, pj_per_bit=1, topology="ring")  # a byte in 1 ns


def ring(n_bytes, devices, steps, latency_ps, byte_ps):
    """(time, values of each device, bytes sent): parts go around a ring, message by message.

    A device sends part after part to the next one, each when it is there and the link is free. In the first
    devices - 1 messages the receiver adds, then it takes over.
    """
    size = [n_bytes // devices + (i < n_bytes % devices) for i in range(devices)]
    value = [[{d} for _ in range(devices)] for d in range(devices)]  # whose numbers a part's sum holds
    there = [[0] * devices for _ in range(devices)]
    free, sent = [0] * devices, 0
    for step in range(steps):
        arrivals = []
        for d in range(devices):
            part = (d - step) % devices
            begin = max(there[d][part], free[d])
            free[d] = begin + size[part] * byte_ps
            sent += size[part]
            arrivals.append(((d + 1) % devices, part, free[d] + latency_ps, set(value[d][part])))
        for d, part, when, what in arrivals:
            there[d][part] = max(there[d][part], when)
            value[d][part] = value[d][part] | what if step < devices - 1 else what
    return max(max(row) for row in there), value, sent


@given(st.integers(1, 12), st.integers(1, 60))
def test_collectives_are_those_of_messages_in_a_ring(devices, n_bytes):
    n_bytes = max(n_bytes, devices)  # no empty parts
    half = devices - 1
    time, value, _ = ring(n_bytes, devices, half, 5000, 1000)
    assert reduce_scatter_ps(SIMPLE, n_bytes, devices) == time
    assert all(value[d][(d + 1) % devices] == set(range(devices)) for d in range(devices))
    assert all_gather_ps(SIMPLE, n_bytes, devices) == time
    time, value, sent = ring(n_bytes, devices, 2 * half, 5000, 1000)
    assert all_reduce_ps(SIMPLE, n_bytes, devices) == time
    assert all_reduce_bytes(n_bytes, devices) == sent
    assert all(part == set(range(devices)) for row in value for part in row)


def test_one_message():
    assert send_ps(SIMPLE, 3) == 3000 + 5000 and send_ps(SIMPLE, 0) == 0
    third = Link(gbps=3, latency_ns=0.5, pj_per_bit=1, topology="ring")
    assert send_ps(third, 1) == -(-Fraction(8_000, 3) // 1) + 500  # whole picoseconds, upwards
    # 512 KiB over 4 devices: 6 steps of 128 KiB at 300 GB/s, 436.9 ns, and 600 ns
    spec = load_system("neupims", RING).spec
    assert isinstance(spec, NpuPimSystem)
    assert all_reduce_ps(spec.link, 2**19, 4) == 6 * (436_907 + 600_000)


def naive_flow(work, sends, latency):
    """Time unit by time unit: stages and links take the next micro-batch when it is there and they are free."""
    m, p = len(work), len(work[0])
    due = {(j, 0): 0 for j in range(m)}  # when a micro-batch is at a stage
    done: dict[tuple[int, int], int] = {}
    ready: dict[tuple[int, int], int] = {}
    at: list[Any] = [None] * p  # micro-batch and its end
    link: list[Any] = [None] * p
    turn, sending = [0] * p, [0] * p
    t = 0
    while len(done) < m * p:
        for s in range(p):
            if at[s] and at[s][1] <= t:
                done[at[s][0], s] = ready[at[s][0], s] = at[s][1]
                at[s] = None
            if at[s] is None and turn[s] < m and due.get((turn[s], s), t + 1) <= t:
                at[s], turn[s] = (turn[s], t + work[turn[s]][s]), turn[s] + 1
        for s in range(p - 1):
            if link[s] and link[s][1] <= t:
                due[link[s][0], s + 1] = link[s][1] + latency
                link[s] = None
            if link[s] is None and ready.get((sending[s], s), t + 1) <= t:
                link[s], sending[s] = (sending[s], t + sends[sending[s]]), sending[s] + 1
        t += 1
        assert t < 10_000
    return [[done[j, s] for s in range(p)] for j in range(m)]


@settings(max_examples=60)
@given(st.data())
def test_a_pipeline_is_that_of_the_clock(data):
    m, p = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    work = [[data.draw(st.integers(1, 9)) for _ in range(p)] for _ in range(m)]
    sends, latency = [data.draw(st.integers(1, 9)) for _ in range(m)], data.draw(st.integers(1, 5))
    found = flow(work, sends, latency)
    assert [list(row) for row in found.end] == naive_flow(work, sends, latency)
    busy = sum(map(sum, work))
    assert found.bubble == pytest.approx(1 - busy / (p * found.total))


@pytest.mark.parametrize(("m", "p"), [(1, 1), (4, 4), (8, 3), (2, 5)])
def test_equal_stages_take_m_plus_p_minus_1_steps(m, p):
    found = flow([[70] * p] * m, [0] * m)
    assert found.total == (m + p - 1) * 70
    assert found.bubble == pytest.approx((p - 1) / (m + p - 1))
    assert flow([[70] * p] * m, [7] * m, 3).total == (m + p - 1) * 70 + (p - 1) * 10  # sends hide beside work


def test_layers_are_shared_as_evenly_as_can_be():
    depth = [[len(group) for group in stage_ranges(*asked)] for asked in ((32, 4), (10, 4), (3, 3))]
    assert depth == [[8] * 4, [3, 3, 2, 2], [1, 1, 1]]
    assert stage_ranges(10, 4) == [range(3), range(3, 6), range(6, 8), range(8, 10)]


@cache
def ran(folder, *more):
    shape: dict[str, object] = {
        "hidden_size": 1024,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "num_hidden_layers": 6,
    }
    shape |= {"intermediate_size": 2048, "vocab_size": 32000, "model_type": "llama"}
    (folder / "config.json").write_text(json.dumps(shape))
    (folder / "r.csv").write_text("seq_len,ch_idx\n40,0\n40,1\n40,0\n40,1\n")
    return call("run", "neupims", "--model", folder, "--requests", folder / "r.csv", "--json", "-", *more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("model")


def test_all_reduces_lengthen_what_pim_does_not_hide(folder):
    found = json.loads(ran(folder, "--tp", "4", "--set", "interleave.sub_batches=1", *RINGS).out)
    # 4 requests of 1,024 elements of 2 bytes over 4 devices: 6 steps of 2 KiB, 6.827 ns and 600 ns; 2 a layer
    each = -(-6 * (6_827 + 600_000) // 1000)
    assert found["allreduce_s"] == pytest.approx(6 * 2 * each * 1e-9)
    assert found["allreduce_exposed_s"] == found["allreduce_s"]  # without sub-batches nothing hides it
    assert found["iteration_cyc"] == 6 * (found["total_cyc"] + 2 * each)
    assert found["link_bytes"] == 6 * 2 * 6 * 4 * 1024 * 2
    assert found["link_j"] == pytest.approx(found["link_bytes"] * 8 * 1.3e-12)


def test_energy_of_links_is_printed(folder):
    ran(folder)  # writes the model and the requests
    done = call("run", "neupims", "--model", folder, "--requests", folder / "r.csv", "--tp", "2")
    assert (done.code, done.err) == (0, "") and "link " in done.out


def test_a_released_layer_exchanges_nothing(folder):
    found = json.loads(ran(folder, "--tp", "4", "--fidelity", "released", "--set", "interleave.sub_batches=1").out)
    assert found["allreduce_s"] == found["link_bytes"] == found["link_j"] == 0
    assert found["iteration_cyc"] == 6 * sum(found["stages_cyc"].values())


def test_sub_batches_hide_all_reduces_behind_pim(folder):
    found = json.loads(ran(folder, "--tp", "4", *RINGS).out)
    stages, cyc = found["stages_cyc"], found["operators_cyc"]
    each = -(-6 * (3_414 + 600_000) // 1000)  # of two requests
    extra = {}
    for name in "CDEF":
        on_npu = sum(n for key, n in cyc.items() if key[0] == name and not re.match(r".\.(logit|attend)", key))
        extra[name] = max(on_npu + 2 * each - stages[name], 0)
    exposed = 5 * (extra["C"] + extra["D"]) + extra["E"] + extra["F"]
    assert found["allreduce_exposed_s"] == pytest.approx(exposed * 1e-9)
    assert found["allreduce_s"] == pytest.approx((5 * 2 + 2) * 2 * each * 1e-9)
    plain = stages["A"] + stages["B"] + 5 * (stages["C"] + stages["D"]) + stages["E"] + stages["F"]
    assert found["iteration_cyc"] == plain + exposed


def test_an_all_reduce_waits_for_the_npu_and_hides_behind_pim():
    shard = shard_of(load_system("neupims", RING), load_llm("gpt3-7b"), 4)
    # 16 and 8 rows of 8 KiB over 4 devices: 6 steps of 109.2 ns or 54.6 ns, and 600 ns; two all-reduces in a stage
    large, small = 2 * 4_256, 2 * 3_928
    operators = {"C.logit": 9_000, "C.attend": 4_000, "C.ffn1": 3_000, "C.qkv": 2_000, "D.ffn1": 7_000, "E.ffn1": 6_000}
    stages = {"A": 500, "B": 600, "C": 13_000, "D": 20_000, "E": 7_000, "F": 6_000}
    sums = [Op(name="sum", kind="all_reduce", rows=rows, n_out=4096, devices=4) for rows in (16, 8)]
    talk = {"A": [], "B": [], **{name: [sums[i]] * 2 for name, i in zip("CDEF", (0, 1, 0, 1), strict=True)}}
    found = exchange(shard, talk, stages, operators | {"F.ffn1": 6_000}, 1000)
    assert found.all_cyc == {"A": 0, "B": 0, "C": large, "D": small, "E": large, "F": small}
    assert found.exposed_cyc == {"A": 0, "B": 0, "C": 5_000 + large - 13_000, "D": 0, "E": large - 1_000, "F": small}
    assert found.sent_bytes["C"] == 2 * found.sent_bytes["F"] == 2 * 6 * 16 * 4096 * 2


def test_two_stages_of_equal_micro_batches(folder):
    one = ("--set", "interleave.sub_batches=1")
    found = json.loads(ran(folder, "--pp", "2", *one).out)
    assert (found["pp"], found["micro_batches"], found["batch"], found["layers"]) == (2, 2, 4, 6)
    # one request in each channel and micro-batch, all alike: a stage of 3 layers takes the same thrice
    layer = found["total_cyc"] // 2
    send = -(-2 * 1024 * 2 * 8 * 1000 // 2400 // 1000) + 600
    assert found["iteration_cyc"] == pytest.approx(3 * 3 * layer + send, rel=0.01)
    assert found["bubble"] == pytest.approx(1 / 3, abs=0.01)
    assert found["link_bytes"] == 4 * 1024 * 2 and found["allreduce_s"] == 0
    whole = json.loads(ran(folder, "--pp", "1", *one).out)
    assert whole == json.loads(ran(folder, *one).out) and (whole["pp"], whole["bubble"]) == (1, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pp", "0"), "--pp 0: expected at least 1"),
        (("--pp", "7"), "--pp 7: expected 1 to 6, the layers of the iteration"),
        (("--pp", "3", "--layers", "2"), "--pp 3: expected 1 to 2, the layers of the iteration"),
        (("--pp", "5"), "--pp 5: 5 micro-batches do not come out of 4 requests; lower --pp"),
        (("--set", "link.gbps=0"), "link.gbps: expected"),
        (("--set", "link.topology=torus"), "link.topology: expected one of ring, switch, got torus"),
        (("--set", "packing.constants=tuned"), "packing.constants: expected one of derived, published, got tuned"),
    ],
)
def test_bad_options(folder, options, said):
    done = ran(folder, *options)
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1


def test_one_sequence_has_no_pipeline():
    done = call("run", "pim_gpt", "--model", "gpt2", "--pp", "2")
    said = "pimloom: --pp 2: pim_gpt runs one sequence, token by token on one device; leave it out\n"
    assert (done.code, done.err) == (2, said)
