"""One decoder layer on NeuPIMs and on its blocked baseline: repairs, models of other shapes, wrong options."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pimloom.arch.llm import load_llm
from pimloom.arch.neupims import Faults
from pimloom.arch.system import load_system
from pimloom.cycle_sim.npu_pim.build import zeros_in_lines
from pimloom.mappers.interleave import stages
from pimloom.systems.devices.npu_pim.laid import Laid, lay_out
from pimloom.systems.npu_rules import NPU
from tests.command import call
from tests.neupims_runs import layer as released_layer
from tests.reference_data import needed

THREE = 0.03
TOKENS = np.array([50, 40, 30, 20, 10])
NAMES = "norm qkv logit attend projection residual norm ffn1 activation ffn2 residual"
QKV, PIM, FFN = slice(0, 2), slice(2, 4), slice(4, None)


def layer(system: str, requests: Path, sub_batches: int, *more: str):
    return released_layer(system, "gpt3-7b", requests, "--set", f"interleave.sub_batches={sub_batches}", *more)


def narrow_layer(sub_batches: int, requests: Sequence[int]) -> Laid:
    """A layer as released, of these requests of `TOKENS`, each in a channel of its own."""
    given = dict.fromkeys((f"faults.{name}" for name in Faults.__struct_fields__), "true")
    system = load_system("neupims", given | {"interleave.sub_batches": str(sub_batches)})
    llm = load_llm(str(Path(__file__).parent / "narrow_gpt2.json"))
    return lay_out(system, llm, TOKENS[requests], np.array(requests), tp=1, layers=1)


def alone(work: slice, requests: Sequence[int]) -> list[tuple[str, int, int]]:
    """What some operators take in a layer of these requests only."""
    operators = narrow_layer(1, requests).layer.builder.operators
    assert [op.name for op in operators] == NAMES.split()
    return [(op.name, op.bytes, op.groups) for op in operators[work]]


@pytest.mark.parametrize("sub_batches", [1, 2, 3])
def test_the_two_programs_of_a_stage_as_released(sub_batches: int) -> None:
    """What the NPU does is a chain, FFN before QKV, PIM's logit and attend are another; both begin a cycle behind the
    ends of the stage before. PIM has a port of its own where sub-batches interleave. Each takes what it takes for the
    requests of its sub-batch alone."""
    laid = narrow_layer(sub_batches, range(len(TOKENS)))
    left, before = list(laid.layer.builder.operators), tuple[int, ...]()
    for stage in stages(sub_batches):
        ffn, pim = ((() if part is None else (part,)) for part in (stage.through, stage.attention))
        ends = list[int]()
        for chain, own in ((((FFN, ffn), (QKV, stage.qkv)), False), (((PIM, pim),), sub_batches > 1)):
            after = before
            for work, parts in chain:
                requests = [int(i) for part in parts for i in laid.parts[part]]
                for taken in alone(work, requests) if requests else ():
                    op = left.pop(0)
                    assert (op.name, op.bytes, op.groups) == taken, stage.name
                    assert (op.after, op.pause) == (after, int(after == before)), (stage.name, op.name)
                    assert (op.port != NPU) == own
                    after = (op.index,)
            ends += after if after != before else ()
        assert laid.layer.stages[stage.name] == ends
        before = tuple(ends)
    assert not left


@pytest.mark.reference
@pytest.mark.slow
def test_rows_held_until_the_last_comp():
    """The specification's item 2: the layer of b256 takes 335,920 cycles then, C and D of two sub-batches 291,851."""
    requests, repair = needed("neupims/inputs/L-b256-gml.csv"), ("--set", "faults.gemv_frees_row=false")
    assert layer("neupims", requests, 1, *repair)["total_cyc"] == pytest.approx(335_920, rel=THREE)
    steady = layer("neupims", requests, 2, *repair)["stages_cyc"]
    assert steady["C"] + steady["D"] == pytest.approx(291_851, rel=THREE)


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize(("batch", "interleaving_pays"), [(64, False), (256, True)])
def test_signs_of_the_ablation(batch, interleaving_pays):
    """Dual row buffers and packing pay at both batches, interleaving at the larger one only."""
    gml, rr = (needed(f"neupims/inputs/L-b{batch}-{how}.csv") for how in ("gml", "rr"))
    blocked, dual, packed = layer("npu_pim", rr, 1), layer("neupims", rr, 1), layer("neupims", gml, 1)
    assert blocked["total_cyc"] > dual["total_cyc"] > packed["total_cyc"]
    steady = layer("neupims", gml, 2)["stages_cyc"]
    assert (steady["C"] + steady["D"] < packed["total_cyc"]) == interleaving_pays


def test_a_barrier_ends_each_stage(tmp_path):
    (tmp_path / "two.csv").write_text("seq_len,ch_idx\n40,0\n33,0\n")
    two = ("--set", "interleave.sub_batches=2")
    found = released_layer("neupims", "gpt3-small", tmp_path / "two.csv", *two)
    assert sum(found["stages_cyc"].values()) == found["total_cyc"] + len("ABCDEF") + 1
    steps = found["stages_cyc"]
    assert found["iteration_cyc"] == steps["A"] + steps["B"] + steps["E"] + steps["F"]


def test_gqa_gated_and_moe_models_run(tmp_path):
    (tmp_path / "r.csv").write_text("seq_len\n100\n513\n7\n")
    shape = {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 2}
    shape |= {"intermediate_size": 2048, "vocab_size": 32000}
    for kind, more in (("llama", {}), ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2})):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, **shape, **more}))
        done = call("run", "neupims", "--model", tmp_path, "--tp", "2", "--requests", tmp_path / "r.csv", "--json", "-")
        assert (done.code, "of 4 in a layer in the mean" in done.err) == (0, kind == "mixtral")
        found = json.loads(done.out)
        # q of 4 heads meets K of 1: 4 GEMVs for a tile of 32 tokens, 4 tiles of V for 512 tokens and head
        logits = 4 * sum(-(-n // 32) for n in (100, 513, 7))
        assert found["commands"]["PIM_GEMV"] == 2 * (logits + 4 * 4 * 4)


BAD = {
    ("--tp", "3"): "--tp 3: expected a divisor of the 32 heads (32 of keys) of gpt3-7b",
    ("--fidelity", "real"): "--fidelity real: expected one of released, physical",
    ("--layers", "0"): "--layers 0: expected 1 to 32, the layers of gpt3-7b",
    ("--generate", "5"): "--generate 5: does not go with --requests",
    ("--set", "interleave.sub_batches=0"): "interleave.sub_batches: expected int >= 1",
    ("--set", "dram.channels=24"): "dram.channels: expected a power of two, got 24",
    ("--set", "dram.row_buffers=one"): "dram.row_buffers: expected one of blocked, dual, none, got one",
}


@pytest.mark.parametrize("options", BAD)
def test_bad_options(options, tmp_path):
    (tmp_path / "r.csv").write_text("seq_len\n100\n")
    done = call("run", "neupims", "--model", "gpt3-7b", "--requests", tmp_path / "r.csv", *options)
    assert done.code == 2 and BAD[options] in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "r.csv: the file is empty"),
        (
            "length\n5\n",
            "r.csv:1: expected the header seq_len, seq_len,ch_idx or timestamp,prompt_tokens,output_tokens, got length",
        ),
        ("seq_len\n", "r.csv: expected at least one request below the header"),
        ("seq_len\n-5\n", "r.csv:2: seq_len: expected 1 to 1048576, got -5"),
        ("seq_len,ch_idx\n5,32\n", "r.csv:2: ch_idx: expected 0 to 31, got 32"),
        ("seq_len,ch_idx\n5\n", "r.csv:2: expected 2 values, got 1"),
        ("seq_len\n5\n\n900000\n", "need"),
    ],
)
def test_bad_request_lists(text, said, tmp_path):
    (tmp_path / "r.csv").write_text(text)
    given = ("--requests", tmp_path / "r.csv", "--set", "interleave.sub_batches=1")
    done = call("run", "neupims", "--model", "gpt3-7b", *given)
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1


def test_queues_of_more_than_counters_count_are_refused():
    """Counters of two bytes: 32 queues of 1023 and a list of 32 are one more than they count."""
    done = call("run", "neupims", "--model", "gpt2", "--set", "controller.queue_entries=1023", "--generate", "1")
    assert done.code == 2 and done.err.endswith("hold 32768 reads or writes; expected at most 32767\n"), done.err
    for size in (31, 33):
        done = call("run", "neupims", "--model", "gpt2", "--layers", "1", "--generate", "1",
                    "--set", "controller.queue_entries=1023", "--set", f"controller.entries={size}", "-q")  # fmt: skip
        assert (done.code, "expected at most 32767" in done.err) == ((0, False) if size == 31 else (2, True))


def test_a_list_is_asked_for():
    done = call("run", "neupims", "--model", "gpt3-7b")
    assert (done.code, done.err) == (
        2,
        "pimloom: --requests: expected a CSV list (seq_len,ch_idx or seq_len), sharegpt, alpaca, "
        "a CSV trace (timestamp,prompt_tokens,output_tokens) or a ShareGPT JSON; or write --prompt P --generate N\n",
    )
    done = call("run", "pim_gpt", "--model", "gpt2", "--tp", "4")
    said = "pimloom: --tp 4: pim_gpt runs one sequence, token by token on one device; leave it out\n"
    assert (done.code, done.err) == (2, said)


@pytest.mark.parametrize("shape", [(3,), (7, 5), ((1 << 15) - 1,), (1 << 15,), (3, 1 << 14)])
def test_arrays_of_channels_begin_with_a_line_of_zeros_and_are_each_a_process_s_own(shape):
    kind = np.dtype(np.int64)
    first, second = zeros_in_lines(shape, kind), zeros_in_lines(shape, kind)
    assert first.shape == shape and first.dtype == kind and first.ctypes.data % 64 == 0 and not first.any()
    if not (child := os.fork()):
        first[...] = 1
        os._exit(not first.all())
    assert os.waitpid(child, 0)[1] == 0 and not first.any()
    first[...] = -1
    assert (first == -1).all() and not second.any()
    del first
    assert not zeros_in_lines(shape, kind).any()
