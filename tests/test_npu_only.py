"""An NPU without PIM against NeuPIMs' simulator and sums by hand, and a batch on a roofline."""

import json

import msgspec
import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import load_system
from pimloom.cycle_sim.npu_pim.fused import fused_mha
from pimloom.cycle_sim.npu_pim.heads import Heads
from pimloom.cycle_sim.npu_pim.kernels.core import NOTHING, TILE, VECTOR
from pimloom.cycle_sim.npu_pim.machine import ArrayRule, Npu, run
from pimloom.cycle_sim.npu_pim.program import Builder
from pimloom.systems.devices.npu_pim.laid import channel_of
from pimloom.systems.devices.roofline_served import serve_gpu
from pimloom.systems.reference.neupims import one_by_one
from tests import neupims_engine, neupims_stimuli
from tests.command import call


def run_json(model, requests, more):
    done = call("run", "npu_only", *model, "--requests", requests, "--json", "-", *more)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def attention(folder, tokens, *more):
    """Cycles of attention of 8 heads of 128, as a device of GPT3-7B has them, between small matrices."""
    (folder / "r.csv").write_text("seq_len\n" + "".join(f"{n}\n" for n in tokens))
    shape = {"hidden_size": 1024, "num_attention_heads": 8, "num_hidden_layers": 2, "intermediate_size": 1024}
    config = {"model_type": "llama", **shape, "num_key_value_heads": 8, "vocab_size": 32000}
    (folder / "config.json").write_text(json.dumps(config))
    return run_json(("--model", folder), folder / "r.csv", more)["operators_cyc"]["B.fused_mha"]


@pytest.mark.parametrize(("narrow", "clocks"), [("true", 9401), ("false", 8313)])
def test_a_channel_without_pim_commands(narrow, clocks, monkeypatch):
    """4096 reads: 9,401 clocks with a window of 96 (7.4 of the specification, DRAM), 8,313 with the wide one."""
    system = load_system("npu_only", {"faults.narrow_window": narrow})
    assert isinstance(system.spec, NpuPimSystem) and system.part is not None and system.part.pim is None
    spec = channel_of(system)
    monkeypatch.setattr(neupims_engine, "spec", lambda mode, fixes=(): spec)
    assert neupims_engine.Run("DRAM", [], neupims_stimuli.data("READ", 4096)).done[1] == clocks


# The rule of the arrays: steps without operands, so that nothing but the rule counts

ALONE = ArrayRule(255, True, True, (128, 8), (0, 0))  # NeuPIMs' NPU-only branch, as the specification has it
STREAMED = ArrayRule(254, False, False, (255, 8), (128, 8))
CASES = {
    # plain on an empty pipeline: t; latency 255 + size
    (ALONE, ((16, NOTHING),)): 271,
    (ALONE, ((16, TILE),)): 128 + 271,
    (ALONE, ((16, VECTOR),)): 8 + 271,
    # behind others: a load at the previous finish, a plain step 255 before it
    (ALONE, ((16, NOTHING), (16, TILE))): 271 + 271,
    (ALONE, ((16, NOTHING), (16, VECTOR))): 271 + 271,
    (ALONE, ((16, NOTHING), (40, TILE), (16, NOTHING))): (271 + 295 - 255) + 271,
    (ALONE, ((16, TILE), (16, NOTHING), (16, NOTHING), (16, TILE))): (128 + 271 + 16 + 16) + 271,
    # a head: logits 295, softmax of 5 cycles, 8 for a vector, and the next step 271 later
    (ALONE, ((40, NOTHING), (16, VECTOR, 0, 5), (16, VECTOR, 0, 5))): 295 + 5 + 8 + 271 + 271,
    # and the logits of the next one after its last step
    (ALONE, ((40, NOTHING), (16, VECTOR, 0, 5), (40, NOTHING, 1, 0))): 295 + 5 + 8 + 271 + 295,
    # NeuPIMs' own arrays: weights enter while the step before drains
    (STREAMED, ((16, TILE),)): 255 + 270,
    (STREAMED, ((16, TILE), (16, NOTHING))): 255 + 16 + 270,
    (STREAMED, ((16, TILE), (16, NOTHING), (16, TILE))): 255 + 16 + 128 + 270,
    (STREAMED, ((16, VECTOR), (16, VECTOR), (4, VECTOR), (4, VECTOR))): 8 + 16 + 16 + 8 + 258,
}


@pytest.mark.parametrize(("rule", "steps"), CASES)
def test_steps_follow_the_rule(rule, steps):
    system = load_system("npu_only")
    assert isinstance(system.spec, NpuPimSystem) and system.part is not None
    b = Builder()
    op = b.operator("steps", (), in_order=True, least=255)
    b.load(op, 64)  # so that there is a group; no step waits for it
    for cycles, loaded, *after in steps:
        follows, pause = after or (-1, 0)
        b.step(op, cycles, (), loaded, follows=follows, pause=pause)
    ran = run(channel_of(system), 1, Npu(128, 16, 1 << 20, False, rule=rule), b, ports=2)
    assert ran.total_ck == 1 + CASES[rule, steps]  # the operator starts last of all in clock 0


def heads(kv_heads=2, shared=1, head_dim=128):
    return Heads(kv_heads, shared, head_dim, head_dim, 128, 8, 2, softmax_cyc=lambda n, rows: rows * (1000 + n))


def steps_of(tokens, serial, **shape):
    b = Builder()
    op = b.operator("fused_mha", (), in_order=True)
    (one_by_one if serial else fused_mha)(b, op, tokens, heads(**shape))
    return op, [(cycles, loaded, *op.follows.get(i, (-1, 0))) for i, (cycles, loaded, _, _) in enumerate(op.tasks)]


def test_the_simulator_takes_one_head_at_a_time():
    """128 tokens: 16 cycles of logits and ceil((128 + 127) / 128) = 2 steps for V; 130 tokens: 16 whole rows, and 3."""
    op, steps = steps_of((128, 130), True, kv_heads=1)
    assert steps == [
        (16, NOTHING, -1, 0), (16, VECTOR, 0, 1128), (16, VECTOR, 0, 1128),
        (16, NOTHING, 2, 0), (16, VECTOR, 3, 1130), (16, VECTOR, 3, 1130), (16, VECTOR, 3, 1130),
    ]  # fmt: skip
    assert sum(size for _, size, _ in op.loads) == 2 * 2 * 128 * (128 + 130) + 2 * 128 * 2  # K and V, two queries


def test_logits_go_before_the_values_of_the_request_before():
    """Requests of 8 and 129 tokens, two heads: logits of 1 and 17 cycles, one and two steps for V."""
    _, steps = steps_of((8, 129), False)
    one, other = (16, VECTOR, 0, 1008), (16, VECTOR, 1, 1008)
    assert steps == [
        (1, VECTOR, -1, 0), (1, VECTOR, -1, 0),
        (17, VECTOR, -1, 0), one, (17, VECTOR, -1, 0), other,
        (16, VECTOR, 2, 1129), (16, VECTOR, 2, 1129), (16, VECTOR, 4, 1129), (16, VECTOR, 4, 1129),
    ]  # fmt: skip


def test_heads_that_share_keys_read_them_once_and_wide_heads_take_more_steps():
    op, steps = steps_of((100,), False, kv_heads=1, shared=3)
    assert sum(size for _, size, _ in op.loads) == 2 * (2 * 100 * 128 + 3 * 128)
    assert len(steps) == 3 + 3
    op, steps = steps_of((100,), False, kv_heads=1, head_dim=256)
    assert steps == [(13, VECTOR, -1, 0), (13, VECTOR, 0, 0), (32, VECTOR, 1, 1100)]


def test_the_serial_chain_is_a_sum(tmp_path):
    """Released: what is beyond the sum of all steps is the way of the first keys and of the last result."""
    tokens = [5, 300, 129, 128]
    chain = 0
    for n in tokens:
        passes = -(-n // 128)
        tree = 1 if n <= 128 else passes + 1  # at most 128 x 128 here
        softmax = 2 * tree + 3 * passes
        chain += 8 * (255 + max(n // 8, 1) + softmax + 8 + -(-(n + 127) // 128) * 271)
    assert 16 < attention(tmp_path, tokens, "--fidelity", "released") - chain < 150


def test_repaired_attention_is_bound_by_the_memory(tmp_path):
    """10 requests of 500 tokens, 8 heads: 4,096 bytes of K and V a token, at 1,024 bytes a cycle. Each fault binds."""

    def with_fault(name):
        return attention(tmp_path, 10 * [500], "--set", f"faults.{name}=true")

    ideal, n_heads = 10 * 500 * 4096 // 1024, 10 * 8
    repaired = attention(tmp_path, 10 * [500])
    assert ideal < repaired < 1.12 * ideal
    assert 1.05 < with_fault("narrow_window") / repaired < 1.13  # 36,963 / 33,127 = 1.12 for reads in a row
    waits = 4352 * 2  # at most: the first keys among the requests that a channel holds, two clocks each
    drained = n_heads * (255 + 63 + 4 * 271)  # every load waits for the step before
    assert drained < with_fault("arrays_drain") < drained + waits
    serial = n_heads * (254 + 63 + (2 * 5 + 3 * 4) + 8 + 4 * 16 + 270)  # logits, softmax, load, five steps
    assert serial < with_fault("attention_serial") < serial + waits


BAD = {
    ("--set", "npu.dataflow=os"): "npu.dataflow: expected ws without PIM, got os",
    ("--set", "dram.lanes=16"): "dram.lanes: expected 0 with row_buffers none and more otherwise, got 16",
    ("--set", "dram.row_buffers=dual"): "dram.lanes: expected 0 with row_buffers none and more otherwise, got 0",
    ("--set", "interleave.sub_batches=2"): "interleave.sub_batches: expected 1 without PIM, got 2",
    ("--set", "dram.timing.nGWRITE=90 nCK"): "--set dram.timing.nGWRITE: a timing of PIM, which this system does not",
    ("--tp", "3"): "--tp 3: expected a divisor of the 32 heads",
}


@pytest.mark.parametrize("options", BAD)
def test_bad_options(options, tmp_path):
    (tmp_path / "r.csv").write_text("seq_len\n100\n")
    done = call("run", "npu_only", "--model", "gpt3-7b", "--requests", tmp_path / "r.csv", *options)
    assert done.code == 2 and BAD[options] in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize(("system", "gb"), [("npu_only", 32 * 2**30), ("gpu_a100", 40 * 2**30)])
def test_a_batch_larger_than_the_memory(system, gb, tmp_path):
    """GPT3-7B: 32 layers of 12 x 4096 x 4096 weights and 9 x 4096 biases, and 2 x 4096 values of a token and layer, of
    two bytes."""
    most = (gb - 32 * (12 * 4096 + 9) * 4096 * 2) // (32 * 2 * 4096 * 2)
    (tmp_path / "r.csv").write_text(f"seq_len\n{most - 1000}\n1001\n")
    done = call("run", system, "--model", "gpt3-7b", "--requests", tmp_path / "r.csv")
    assert done.code == 2 and done.err.count("\n") == 1
    assert f"there are {gb:,}: at most {most:,} tokens fit" in done.err


# A batch on a roofline: 1 byte a nanosecond, 1000 operations a nanosecond

LARGE = {
    "A.norm": 8_000, "A.qkv": 6_022_000, "B.fused_mha": 40_000, "E.projection": 2_010_000, "E.residual": 12_000,
    "E.norm": 8_000, "E.ffn1": 8_028_000, "E.activation": 32_000, "E.ffn2": 8_022_000, "E.residual.2": 12_000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "tp", "changed"),
    [
        ({}, 1, {}),
        # 2 x 2 rows x 1000 x 3000 operations at one a nanosecond, and so on; attention stays with its bytes
        (
            {"peak_tflops": 0.001},
            1,
            {"A.qkv": 12_000_000, "E.projection": 4_000_000, "E.ffn1": 16_000_000, "E.ffn2": 16_000_000},
        ),
        ({"peak_tflops": 0.002, "peak_share": 0.5, "memory_gb_s": 4, "memory_share": 0.25}, 1, "as above"),
        (
            {},
            2,
            {
                "A.qkv": 3_013_000, "B.fused_mha": 20_000, "E.projection": 1_008_000, "E.ffn1": 4_016_000,
                "E.activation": 16_000, "E.ffn2": 4_014_000,
            },
        ),
        ({"launch_us": 2, "kernels_per_layer": 7}, 1, {"E.launches": 14_000}),
    ],
)  # fmt: skip
def test_a_batch_on_a_roofline(overrides, tp, changed):
    """3 and 5 tokens; width 1000, 10 heads of 100, FFN of 4000, biases, two bytes; 2 rows of 2 layers."""
    if changed == "as above":
        changed = {"A.qkv": 12_000_000, "E.projection": 4_000_000, "E.ffn1": 16_000_000, "E.ffn2": 16_000_000}
    settings = {"peak_tflops": 1, "memory_gb_s": 1, "memory_bytes": 48_100_000} | overrides
    system = load_system("gpu_a100", {key: str(value) for key, value in settings.items()})
    sizes = {"num_hidden_layers": 2, "hidden_size": 1000, "intermediate_size": 4000, "head_dim": 100}
    heads_ = {"num_attention_heads": 10, "num_key_value_heads": 10}
    llm = msgspec.structs.replace(load_llm("gpt2"), name="tiny", **sizes, **heads_)
    found = serve_gpu(system, llm, np.array([3, 5]), tp=tp, layers=2)
    assert found.operators_cyc == LARGE | changed
    total = sum((LARGE | changed).values())
    talk = 4 * round(4300 + 600 + 2 * 1000 * 2 / 300) if tp > 1 else 0  # two all-reduces a layer of 4,000 bytes
    assert (found.total_cyc, found.iteration_cyc, found.clock_ps) == (total, 2 * total + talk, 1000)
    assert found.iteration_energy_j == pytest.approx(400 * found.iteration_cyc * 1e-9)
    assert found.energy_per_token_j == pytest.approx(tp * 400 * found.iteration_cyc / 2 * 1e-9)
    assert found.tokens_per_s == pytest.approx(2 / (found.iteration_cyc * 1e-9))
    if tp == 1:  # 48,036,000 bytes of weights and biases, 8,000 a token
        with pytest.raises(UserError, match="needs 48,108,000 bytes .* on a device.* at most 8 tokens fit$"):
            serve_gpu(system, llm, np.array([3, 6]), tp=1, layers=2)


def test_the_a100_of_the_system(tmp_path):
    """QKV of one request of GPT3-7B: 3 x 4096 x 4096 weights, 3 x 4096 biases, 4 x 4096 activations, two bytes each,
    1,555 GB/s."""
    (tmp_path / "r.csv").write_text("seq_len\n100\n")
    done = call("run", "gpu_a100", "--model", "gpt3-7b", "--requests", tmp_path / "r.csv", "--json", "-")
    found = json.loads(done.out)
    assert found["operators_cyc"]["A.qkv"] == round(2 * (3 * 4096**2 + 7 * 4096) / 1555)
    assert found["commands"] == {} and found["layers"] == 32


def test_a_roofline_has_no_faults_and_wants_a_list():
    done = call("run", "gpu_a100", "--model", "gpt3-7b", "--tp", "2")
    assert (done.code, done.err.split(":")[1]) == (2, " --requests")
    done = call("run", "gpu_a100", "--model", "gpt3-7b", "--requests", "r.csv", "--fidelity", "released")
    said = "--fidelity released: gpu_a100 is a roofline, it has no faults to turn on; leave it out"
    assert (done.code, done.err) == (2, f"pimloom: {said}\n")


def test_many_iterations_on_a_roofline(tmp_path):
    """Two slots, three requests of 9 and 2, 5 and 3, 7 and 1 tokens: contexts of each iteration by hand."""
    (tmp_path / "t.csv").write_text("timestamp,prompt_tokens,output_tokens\n0,9,2\n0,5,3\n0,7,1\n")
    given = ("run", "gpu_a100", "--model", "gpt3-7b", "--tp", "2", "--requests", tmp_path / "t.csv", "--batch", "2")
    done = call(*given, "--iterations", "9", "--json", "-")
    found = json.loads(done.out)
    assert (done.code, done.err, found["iterations"]) == (0, "", 3)
    assert found["workload"]["policy"] is None and found["requests_finished"] == 3
    llm, gpu = load_llm("gpt3-7b"), load_system("gpu_a100")
    for seconds, tokens in zip(found["iteration_s"], ([9, 5], [10, 6], [7, 7]), strict=True):
        alone = serve_gpu(gpu, llm, np.array(tokens), tp=2, layers=32)
        assert seconds == pytest.approx(alone.iteration_cyc * 1e-9)
    assert json.loads(call(*given, "--json", "-").out)["tokens"] == 14  # one iteration, its operators and all


@pytest.mark.parametrize(
    ("options", "said"),
    [
        # 40 GiB less 12,887,261,184 of weights and biases, 524,288 a token
        (("--batch", "9000"), " tokens of the 57,339 of the memory; lower --batch"),
        (("--batch", "4", "--policy", "min-load"), "--policy min-load: gpu_a100 is a roofline, and only NPUs"),
        (("--batch", "4", "--pp", "2"), "--pp 2: gpu_a100 is a roofline, and only NPUs have pipelines; leave it out"),
        (("--set", "memory_bytes=12888500000", "--batch", "4"), "needs 747 tokens of the memory, which has 2 for"),
    ],
)
def test_what_a_roofline_cannot_serve(options, said):
    done = call("run", "gpu_a100", "--model", "gpt3-7b", "--requests", "alpaca", "--iterations", "2", *options)
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1


def test_contexts_beyond_the_positions_are_told(tmp_path):
    (tmp_path / "r.csv").write_text("seq_len\n3000\n5\n")
    done = call("run", "gpu_a100", "--model", "gpt3-7b", "--requests", tmp_path / "r.csv")
    said = "gpt3-7b has positions for 2,048 tokens; contexts of up to 3,000 are simulated"
    assert (done.code, done.err) == (0, f"pimloom: note: {said}\n")


@pytest.mark.parametrize(("width", "inner", "tp"), [(256, 32768, 1), (512, 8192, 1), (1024, 4096, 4)])
def test_each_weight_is_read(width, inner, tp, tmp_path):
    """Two of them are never one line, however narrow the model: else one read would answer both."""
    shape = {"n_embd": width, "n_inner": inner, "n_head": 16, "n_layer": 1, "n_positions": 64, "vocab_size": 1000}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", **shape}))
    (tmp_path / "r.csv").write_text("seq_len\n32\n")
    found = run_json(("--model", tmp_path), tmp_path / "r.csv", ("--tp", str(tp)))
    weights = (4 * width**2 + 2 * width * inner) * 2 // tp
    reads = found["memory_requests"] - found["commands"]["WR"]
    assert weights // 64 <= found["commands"]["RD"] <= reads
    time_s = found["iteration_cyc"] * found["clock_ps"] * 1e-12
    assert weights / time_s < 32 * 32e9  # [B/s] what the pins of the channels carry
