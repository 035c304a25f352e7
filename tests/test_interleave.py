"""Any number of sub-batches, stage by stage, and attention as a chain for each request."""

import json
from collections import Counter
from functools import cache
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.llm import load_llm
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import load_system
from pimloom.cycle_sim.npu_pim.machine import run
from pimloom.mappers.interleave import Stage, stages, turns
from pimloom.mappers.partition import subset_sums
from pimloom.systems.devices.npu_pim.laid import lay_out
from pimloom.systems.devices.npu_pim.layer import LayerProgram
from pimloom.systems.devices.npu_pim.serve import PORTS, serve
from tests.command import call

# the specification, section 3.8: stage, NPU (projection and FFN, QKV), PIM
AS_RELEASED = {
    1: [("A", None, (0,), None), ("B", None, (), 0), ("E", 0, (), None)],
    2: [
        ("A", None, (0,), None), ("B", None, (1,), 0), ("C", 0, (0,), 1), ("D", 1, (1,), 0), ("E", 0, (), 1),
        ("F", 1, (), None),
    ],
}  # fmt: skip


@pytest.mark.parametrize("sub_batches", AS_RELEASED)
def test_one_and_two_sub_batches_are_those_of_the_released_simulator(sub_batches):
    assert [stage[:4] for stage in stages(sub_batches)] == AS_RELEASED[sub_batches]


def test_times_of_two_sub_batches():
    assert [stage.times(32) for stage in stages(2)] == [1, 1, 31, 31, 1, 1]
    assert [stage.times(32) for stage in stages(1)] == [32, 32, 32]


def unrolled(table: tuple[Stage, ...], layers: int) -> list[Stage]:
    """All stages of an iteration in their order: those that repeat do so together."""
    found = []
    for runs, group in groupby(table, key=lambda stage: stage.runs):
        found += list(group) * {"once": 1, "layer": layers, "between": layers - 1}[runs]
    return found


@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("sub_batches", range(1, 6))
def test_every_sub_batch_goes_through_every_layer_in_order(sub_batches, layers):
    """A list of what each sub-batch has behind it; in a stage, only what is there at its start is to be used."""
    table = stages(sub_batches)
    assert len({stage.name for stage in table}) == len(table)
    row = unrolled(table, layers)
    assert Counter(stage.name for stage in row) == Counter({s.name: n for s in table if (n := s.times(layers))})
    done: list[list[str]] = [[] for _ in range(sub_batches)]
    for stage in row:
        ready = [(mine or ["FFN"])[-1] for mine in done]
        touched = []
        if stage.attention is not None:
            assert ready[stage.attention] == "QKV"
            done[stage.attention].append("MHA")
            touched.append(stage.attention)
        if stage.through is not None:
            assert ready[stage.through] == "MHA" and stage.through not in touched
            done[stage.through].append("FFN")
            ready[stage.through] = "FFN"  # the NPU works on, without a barrier
        for i in stage.qkv:
            assert ready[i] == "FFN" and i not in touched
            done[i].append("QKV")
    assert done == [["QKV", "MHA", "FFN"] * layers] * sub_batches


@pytest.mark.parametrize("sub_batches", range(2, 6))
def test_pim_never_waits_for_a_stage_of_its_own(sub_batches):
    """But for the first and the last stage, PIM has an attention in each, one sub-batch after the other."""
    row = unrolled(stages(sub_batches), 4)
    assert [stage.attention for stage in row] == [None, *(list(range(sub_batches)) * 4), None]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=9), st.integers(1, 5))
def test_no_sub_batch_is_left_empty_while_there_are_requests(requests, parts):
    costs, channel = (list(x) for x in zip(*requests, strict=True))
    found = subset_sums(costs, np.array(channel), 3, parts)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(costs)))
    assert sum(len(part) > 0 for part in found) == min(parts, len(costs))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model of six layers and five requests, four of them in one channel."""
    folder = tmp_path_factory.mktemp("model")
    shape: dict[str, str | int] = {
        "hidden_size": 512,
        "num_attention_heads": 4,
        "num_hidden_layers": 6,
    }
    shape |= {"model_type": "opt", "ffn_dim": 1024, "word_embed_proj_dim": 512, "vocab_size": 1000}
    (folder / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 2048}))
    (folder / "requests.csv").write_text("seq_len,ch_idx\n40,0\n33,0\n70,0\n600,0\n20,1\n")
    return folder


@cache
def ran(folder, sub_batches, *more):
    given = ("--requests", folder / "requests.csv", "--set", f"interleave.sub_batches={sub_batches}")
    done = call("run", "neupims", "--model", folder, *given, "--json", "-", *more)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def printed(folder, *more):
    done = call("run", "neupims", "--model", folder, "--requests", folder / "requests.csv", *more)
    assert (done.code, done.err) == (0, "")
    return done.out


def test_tables_say_what_they_show(folder):
    once = printed(folder, "--set", "interleave.sub_batches=1", "--layers", "1")
    assert "stages: A LayerNorm and QKV; B attention; E projection and FFN\n" in once and " one layer " in once
    assert "an iteration runs them 1 time\n1 layer " in once and "1 layer, mJ" in once
    text = printed(folder)
    legend = "A QKV 1; B QKV 2, MHA 1; C FFN 1, QKV 1, MHA 2; D FFN 2, QKV 2, MHA 1; E FFN 1, MHA 2; F FFN 2\n"
    assert f"stages by sub-batch: {legend}" in text and "two layers, each stage once" in text
    assert "an iteration runs C to D 5 times, the others once\n6 layers " in text
    rows = {row[1]: row for row in map(str.split, text.splitlines()) if row[:1] == ["stage"]}
    cycles = {name: int(row[2].replace(",", "")) for name, row in rows.items()}
    assert cycles == ran(folder, 2)["stages_cyc"]
    for name, (_, _, _, ms, share) in rows.items():
        assert (ms, share) == (f"{cycles[name] / 1e6:.4f}", f"{100 * cycles[name] / sum(cycles.values()):.1f}")
    many = printed(folder, "--set", "interleave.sub_batches=4")
    assert "B QKV 2 to 4, MHA 1" in many.replace("\n", " ") and "runs C1 to C4 5 times" in many
    piped = printed(folder, "--pp", "2").replace("\n", " ")
    assert "pipeline of 2 stages of 1 device, 2 micro-batches" in piped and "an iteration runs" not in piped
    assert "no energy of a pipeline: what devices take while they wait is not known" in piped


NAMES = ["A", "B", "C1", "C2", "C3", "E1", "E2", "F"]


def test_three_sub_batches_run(folder):
    found = ran(folder, 3)
    steps = found["stages_cyc"]
    assert list(steps) == NAMES and sum(steps.values()) == found["total_cyc"]
    steady = sum(steps[name] for name in ("C1", "C2", "C3"))
    assert found["iteration_cyc"] == steps["A"] + steps["B"] + 5 * steady + steps["E1"] + steps["E2"] + steps["F"]
    once = {key for key in found["operators_cyc"] if key.startswith("C2.")}
    norms = {"C2.norm", "C2.norm.2", "C2.residual", "C2.residual.2"}
    assert once == {"C2.projection", "C2.ffn1", "C2.activation", "C2.ffn2", "C2.qkv", "C2.logit", "C2.attend"} | norms
    assert found["iteration_energy_j"] > 0


def test_work_does_not_depend_on_the_number_of_sub_batches(folder):
    """Multiplications of NPU and PIM in an iteration are the same, however it is cut."""
    causes = [ran(folder, n)["iteration_energy_by_cause_j"] for n in (1, 2, 3, 5)]
    for cause in ("npu_mac", "comp", "gwrite"):
        assert [found[cause] for found in causes[1:]] == pytest.approx([causes[0][cause]] * 3)


def test_each_sub_batch_has_its_all_reduces(folder):
    found = ran(folder, 3, "--tp", "2")
    # two a layer for all rows together: 2 x (1 step forth and 1 back) of half of 5 x 512 elements, on 2 links
    assert found["link_bytes"] == 6 * 2 * 2 * 5 * 512 * 2


@pytest.mark.parametrize("sub_batches", [6, 100])
def test_more_sub_batches_than_requests(folder, sub_batches):
    given = ("--requests", folder / "requests.csv", "--set", f"interleave.sub_batches={sub_batches}")
    done = call("run", "neupims", "--model", folder, *given)
    said = f"pimloom: note: the batch of 5 runs undivided, as {sub_batches} sub-batches need more\n"
    assert (done.code, done.err) == (0, said)
    one = call("run", "neupims", "--model", folder, *given[:2], "--set", "interleave.sub_batches=1")
    assert (one.out, one.err) == (done.out, "")


def test_micro_batches_with_fewer_requests_than_sub_batches(folder):
    """Five requests in two micro-batches: two and three."""
    given = ("run", "neupims", "--model", folder, "--requests", folder / "requests.csv", "--pp", "2")
    done = call(*given, "--set", "interleave.sub_batches=3")
    said = "pimloom: note: micro-batches, the smallest of 2, run undivided, as 3 sub-batches need more\n"
    assert (done.code, done.err) == (0, said)
    assert call(*given, "--set", "interleave.sub_batches=2").err == ""


def pim_stage(folder, requests, waits):
    path = folder / "drawn.csv"
    path.write_text("seq_len,ch_idx\n" + "".join(f"{tokens},{channel}\n" for tokens, channel in requests))
    chosen = ("--set", "interleave.sub_batches=1", "--set", f"faults.attend_waits_for_all={waits}")
    done = call("run", "neupims", "--model", folder, "--requests", path, "--json", "-", *chosen)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


FEW_TOKENS, MANY_TOKENS = ((20, 0),) * 4, ((500, 1),)


def test_a_request_waits_for_itself_only(folder):
    """4 heads: in channel 0 four requests have 4 tiles of K and 64 of V, in channel 1 one has 16 of K and 16 of V."""
    short, long = (pim_stage(folder, each, "false")["stages_cyc"]["B"] for each in (FEW_TOKENS, MANY_TOKENS))
    both = pim_stage(folder, FEW_TOKENS + MANY_TOKENS, "false")
    assert both["stages_cyc"]["B"] == pytest.approx(max(short, long), rel=0.05)
    waiting = pim_stage(folder, FEW_TOKENS + MANY_TOKENS, "true")
    assert waiting["stages_cyc"]["B"] > 1.1 * both["stages_cyc"]["B"]
    mine, theirs = both["commands"], waiting["commands"]
    assert all(mine[name] == theirs[name] for name in ("RD", "GWRITE", "PIM_HEADER", "PIM_GEMV", "COMP"))
    assert mine["WR"] == pytest.approx(theirs["WR"], abs=32)  # writes that still wait at the end issue in neither


def test_times_of_pim_are_spans_over_all_requests(folder):
    found = pim_stage(folder, FEW_TOKENS + MANY_TOKENS, "false")
    times, stage = found["operators_cyc"], found["stages_cyc"]["B"]
    assert {key for key in times if key.startswith("B.")} == {"B.logit", "B.attend"}
    assert max(times["B.logit"], times["B.attend"]) <= stage < times["B.logit"] + times["B.attend"]
    waiting = pim_stage(folder, FEW_TOKENS + MANY_TOKENS, "true")
    times = waiting["operators_cyc"]
    assert waiting["stages_cyc"]["B"] == times["B.logit"] + times["B.attend"]


def test_without_waiting_one_request_takes_no_longer(folder):
    """A request alone has nobody to wait for."""
    both = [pim_stage(folder, MANY_TOKENS, waits)["stages_cyc"]["B"] for waits in ("true", "false")]
    assert both[0] == pytest.approx(both[1], rel=0.01)


# stages of all layers, none standing for another


def test_stages_of_all_layers_in_order():
    def told(sub_batches, layers):
        return [f"{turn.stage.name}{turn.here}{turn.then}" for turn in turns(sub_batches, layers)]

    assert told(1, (4, 5)) == ["A44", "B44", "E44", "A55", "B55", "E55"]
    assert told(2, (4, 5, 7)) == ["A45", "B45", "C45", "D45", "C57", "D57", "E57", "F57"]
    assert told(2, (4,)) == ["A44", "B44", "E44", "F44"]
    assert told(3, (4, 5)) == ["A45", "B45", "C145", "C245", "C345", "E145", "E245", "F45"]


def test_work_of_the_layer_behind():
    """Of a turn from one layer to the next: QKV, and attention of the first sub-batch; after the last turn all."""
    behind = {
        stage.name: "".join(work[0] for work in ("through", "qkv", "attention") if stage.behind(work))
        for stage in stages(2)
    }
    assert behind == {"A": "", "B": "", "C": "q", "D": "qa", "E": "tqa", "F": "tqa"}
    assert not any(stage.behind(work) for stage in stages(1) for work in ("through", "qkv", "attention"))


@pytest.mark.slow
@pytest.mark.parametrize("sub_batches", [1, 2])
def test_a_layer_stands_for_the_others(sub_batches):
    """No state is carried from layer to layer: phase of the refresh, writes that wait. 1 % is what was seen."""
    system, llm, layers = load_system("neupims", {"interleave.sub_batches": str(sub_batches)}), load_llm("gpt3-7b"), 4
    tokens = np.array([700, 30, 512, 64, 91, 1000, 12, 256] * 4)
    laid = lay_out(system, llm, tokens, None, tp=4, layers=layers)
    order = [
        turn.stage._replace(name=f"{turn.stage.name}@{i}", runs="layer")
        for i, turn in enumerate(turns(sub_batches, range(layers)))
    ]
    parts = [part.tolist() for part in laid.parts]
    whole = LayerProgram(laid.layer.shard, laid.layer.batch, laid.layer.here, laid.layer.then).build(parts, order)
    assert isinstance(system.spec, NpuPimSystem)
    total = run(laid.spec, system.spec.dram.channels, laid.npu, whole.builder, ports=PORTS).total_ck
    found = serve(system, llm, tokens, None, tp=4, layers=layers, fidelity="physical")
    stood_for = sum(found.stages_cyc[stage.name] * stage.times(layers) for stage in stages(sub_batches))
    assert stood_for == pytest.approx(total, rel=0.02)
