"""MFU against scale: the specification's table and sensitivity, and `pimloom fabric mfu` as a user types it."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.training import load_training
from pimloom.systems.fabric.mfu import Search, domains, mfu_row, mfu_rows, trend
from pimloom.systems.fabric.sensitivity import sensitivity_rows
from tests.command import call
from tests.naive_training import best_mfu

LLAMA = Search(load_llm("llama-3.1-405b"), load_training("h100").value)
RING, DGX = domains("infinitehbd-k2,dgx8")
MIXTRAL = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mixtral",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
}
# Specification 7.5: GPUs -> MFU of DGX, MFU of InfiniteHBD, ratio; tolerance 1 %.
TABLE = {1024: (0.536, 0.565, 1.05), 65536: (0.112, 0.257, 2.31), 131072: (0.062, 0.192, 3.11)}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def result(*arguments: str) -> dict:
    done = call("fabric", "mfu", *arguments, "--json", "-")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.parametrize("gpus", TABLE)
def test_the_specifications_table(gpus: int) -> None:
    ring, dgx = mfu_rows(LLAMA, [RING, DGX], [gpus])
    of_dgx, of_ring, ratio = TABLE[gpus]
    assert dgx["mfu"] == pytest.approx(of_dgx, abs=0.0005, rel=0.01) and dgx["ratio_to_dgx8"] == 1
    assert ring["mfu"] == pytest.approx(of_ring, abs=0.0005, rel=0.01)
    assert ring["ratio_to_dgx8"] == pytest.approx(ratio, rel=0.01)
    assert ring["ratio_to_dgx8"] == pytest.approx(best_mfu(gpus, 800e9) / best_mfu(gpus, 450e9, (8,)), rel=1e-9)


def test_the_claim_and_the_trends() -> None:
    scales = [1024 * 2**power for power in range(8)]
    rows = mfu_rows(LLAMA, [RING, DGX], scales)
    few = [row for row in rows if row["gpus"] in (1024, 8192, 65536, 131072)]
    assert trend(few, RING.arch) == {"ratio_never_falls": True, "ratio_largest_fall": 0, "tp_rises": True}
    assert trend(few, DGX.arch) == {"ratio_never_falls": True, "ratio_largest_fall": 0, "tp_rises": False}
    every = trend(rows, RING.arch)  # from 1,024 to 2,048 GPUs both are best with TP 8, and the ratio falls a little
    assert every["tp_rises"] and every["ratio_largest_fall"] == pytest.approx(0.0003, abs=0.0001)
    last = next(row for row in rows if row["gpus"] == 131072 and row["arch"] == RING.arch)
    assert last["ratio_to_dgx8"] == pytest.approx(3.37, rel=0.15) and last["tp"] == 64


def test_a_trend_that_falls_is_said_to() -> None:
    rows = [{"arch": "a", "gpus": n, "ratio_to_dgx8": r, "tp": tp} for n, r, tp in ((2, 1.0, 16), (1, 2.0, 8))]
    assert trend(rows, "a") == {"ratio_never_falls": False, "ratio_largest_fall": 0.5, "tp_rises": True}
    assert trend([rows[0] | {"tp": 8}, rows[1] | {"tp": 16}], "a")["tp_rises"] is False


def test_equal_systems_have_ratio_1() -> None:
    alike = replace(RING, gb_s=450.0)
    (row,) = mfu_rows(replace(LLAMA, tensor=(8,)), [alike], [16384])
    assert row["ratio_to_dgx8"] == 1


def test_parts_of_a_row_add_up() -> None:
    row = mfu_row(LLAMA, RING, 8192)
    parts = ("compute", "tp_all_reduce", "all_to_all", "p2p", "bubble", "dp_all_reduce")
    assert sum(row[f"{part}_s"] for part in parts) == pytest.approx(row["step_s"])
    assert row["tp"] * row["pp"] * row["dp"] == 8192 and row["dp"] * row["micro_batches"] == 2048
    assert row["tokens_per_s"] == pytest.approx(2048 * 8192 / row["step_s"])
    assert row["memory_bytes"] <= row["memory_limit_bytes"] == 0.92 * 80 * 2**30


def test_the_sensitivity_of_the_specification() -> None:
    rows = sensitivity_rows(LLAMA, 131072)
    assert len(rows) == 10 and all(row["gpus"] == 131072 for row in rows)
    found = {(row["case"], row["batch"]): row["ratio_to_dgx8"] for row in rows}
    assert found["as asked", 2048] == pytest.approx(3.11, rel=0.01)
    assert found["half the bandwidth", 2048] == pytest.approx(2.41, rel=0.01)
    for batch, low, high in ((1024, 3.7, 4.3), (2048, 2.5, 3.0), (4096, 1.8, 2.2)):
        lossy, plain = found["equal bandwidth, loss 5%", batch], found["equal bandwidth", batch]
        assert plain == pytest.approx(high, rel=0.01) and lossy == pytest.approx(low, abs=0.05)
    assert found["ideal formula, equal half", 2048] == pytest.approx(1.4, rel=0.01)
    # What the ideal formula promises DGX, with 8 to 64 micro-batches in 64 stages, no schedule can keep.
    assert found["interleaved, equal half", 2048] == pytest.approx(3.67, rel=0.01)


def test_a_case_that_does_not_fit_has_no_ratio() -> None:
    rows = sensitivity_rows(LLAMA, 64)
    assert all(row["mfu"] is None and row["ratio_to_dgx8"] is None for row in rows)
    assert {row["batch"] for row in sensitivity_rows(replace(LLAMA, batch=1), 64)} == {1, 2}


def test_131072_gpus_take_less_than_half_a_second() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        mfu_rows(replace(LLAMA, schedule="interleaved", most_chunks=8), [RING], [131072])
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 0.5


# The command


def test_the_command_prints_and_writes() -> None:
    files = ("--csv", "m.csv", "--figure", "m.svg", "--json", "m.json")
    done = call("fabric", "mfu", "--model", "llama-3.1-405b", "--gpus", "1024,131072", *files)
    assert done.code == 0 and "64×32×64" in done.out and "3.11" in done.out
    assert "batch 2048 of 8192 tokens, schedule 1f1b" in done.out
    found = json.loads(Path("m.json").read_text())
    assert [(row["gpus"], row["arch"]) for row in found["rows"]] == [
        (n, arch) for n in (1024, 131072) for arch in ("infinitehbd-k2", "dgx8")
    ]
    assert found["trend"]["infinitehbd-k2"] == {
        "ratio_never_falls": True,
        "ratio_largest_fall": 0,
        "tp_rises": True,
    }
    assert (found["batch"], found["schedule"], found["interleave"], found["gpu"]) == (2048, "1f1b", 1, "h100")
    assert Path("m.csv").read_text().startswith("gpus,arch,model,batch,schedule,tp,pp,dp,ep,interleave,micro_batch,")
    drawing = Path("m.svg").read_text()
    assert "MFU [%]" in drawing and ">131,072<" in drawing


def test_the_sensitivity_table_states_batch_schedule_and_bandwidth() -> None:
    arguments = ("--model", "llama-3.1-405b", "--gpus", "131072", "--sensitivity")
    out = call("fabric", "mfu", *arguments).out
    assert all(word in out for word in ("batch", "schedule", "GB/s", "interleaved-ideal", "1.41", "3.67"))
    assert result(*arguments)["rows"] == sensitivity_rows(LLAMA, 131072)


def test_bandwidth_batch_schedule_and_recipe_can_be_set() -> None:
    def ratio(*arguments: str) -> float:
        base = ("--model", "llama-3.1-405b", "--gpus", "131072", "--arch", "infinitehbd-k2,dgx8")
        return result(*base, *arguments)["rows"][0]["ratio_to_dgx8"]

    assert ratio("--hbd-gb-s", "400") == ratio("--hbd-gb-s", "infinitehbd-k2=400") == pytest.approx(2.41, rel=0.01)
    assert ratio("--hbd-gb-s", "400", "--hbd-gb-s", "dgx8=225") > ratio("--hbd-gb-s", "400")
    assert ratio("--batch", "4096") < ratio() < ratio("--batch", "1024")
    assert ratio("--schedule", "interleaved") > ratio("--schedule", "interleaved-ideal")
    assert ratio("--schedule", "interleaved", "--interleave", "1") == ratio()
    assert ratio("--set", "gpu.dcn_gb_s=100") != ratio()
    assert ratio("--micro-batch", "1,2", "--batch", "4096") == pytest.approx(ratio("--batch", "4096"))


def test_every_fabric_with_a_known_bandwidth() -> None:
    rows = result("--model", "llama-3.1-405b", "--gpus", "131072", "--arch", "all")["rows"]
    found = {row["arch"]: row for row in rows}
    assert list(found) == ["infinitehbd-k2", "infinitehbd-k3", "tpuv4", "nvl36", "nvl72", "nvl36x2", "nvl576", "dgx8"]
    assert found["nvl36"]["tp"] == 32 and found["nvl72"]["tp"] == 64
    assert found["nvl72"]["mfu"] > found["infinitehbd-k2"]["mfu"] > found["tpuv4"]["mfu"]


def test_a_mixture_of_experts_is_split() -> None:
    Path("mixtral.json").write_text(json.dumps(MIXTRAL))
    base = ("--model", "mixtral.json", "--gpus", "1024", "--batch", "1024", "--tp", "1,2,4,8")
    rows = {network: result(*base, "--all-to-all", network)["rows"][0] for network in ("dcn", "hbd")}
    assert all(row["model"] == "mixtral" and row["ep"] >= 1 for row in rows.values())
    assert rows["hbd"]["mfu"] >= rows["dcn"]["mfu"]
    uneven = result(*base, "--set", "recipe.expert_imbalance=2")["rows"][0]
    assert uneven["mfu"] <= rows["dcn"]["mfu"]
    small = ("--model", "mixtral.json", "--gpus", "16", "--batch", "1024", "--tp", "1,2,4,8")
    out = call("fabric", "mfu", *small, "--all-to-all", "hbd").out
    assert "TP×PP×DP×EP" in out and "1×4×4×2" in out


def test_a_short_context_is_noted() -> None:
    done = call("fabric", "mfu", "--model", "gpt3-175b", "--gpus", "1024")
    assert done.code == 0
    assert done.err == "pimloom: note: gpt3-175b has positions for 2048 tokens; 8192 are used\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpus", "8"), "the least is 863.8 GiB of 73.6 GiB a GPU, with TP 8 × PP 1 × DP 1; try --gpus 128"),
        (("--set", "gpu.memory_bytes=1000"), "more memory (--set gpu.memory_bytes=…) or a smaller model"),
        (("--gpus", "1000"), "no TP × PP × DP is 1000 with TP of 8,16,32,64, PP a power of two up to 128"),
        (("--gpus", "1000"), "try 512 or 1024 GPUs"),
        (("--gpus", "131072", "--batch", "4"), "--batch 4: below the 16 replicas that 131072 GPUs leave"),
        (("--gpus", "0"), "--gpus '0': expected integers from 1 to 999999999"),
        (("--gpus", "1e3"), "--gpus '1e3': expected integers from 1 to 999999999"),
        (("--tp", "3"), "--tp 3: none divides llama-3.1-405b's 128 heads"),
        (("--arch", "nvl36", "--tp", "64"), "lies within domains of 36 GPUs of nvl36"),
        (("--arch", "sip-ring"), "no parts and no bandwidth of it are known"),
        (("--arch", "infinitehbd-k1"), "expected K of 2 or more"),
        (("--hbd-gb-s", "0"), "--hbd-gb-s 0: expected GB/s from 0.001 to 1,000,000,000"),
        (("--hbd-gb-s", "nan"), "--hbd-gb-s nan: expected GB/s from 0.001 to 1,000,000,000"),
        (("--hbd-gb-s", "nvl72=1"), "nvl72 is none of --arch infinitehbd-k2,dgx8"),
        (("--interleave", "2"), "--interleave 2: 1f1b has 1 chunk"),
        (("--schedule", "gpipe"), "'gpipe' is not one of '1f1b', 'interleaved'"),
        (("--gpu", "h200"), "unknown gpu 'h200'; nearest: h100"),
        (("--set", "gpu.dcn_gbs=1"), "no such key in h100.yaml; nearest: gpu.dcn_gb_s"),
        (("--set", "recipe.expert_imbalance=0.5"), "expected number >= 1 and <= 1024, got 0.5"),
        (("--batch", "0"), "Invalid value for '--batch'"),
        (("--sensitivity", "--figure", "f.svg"), "leave out --sensitivity, or --figure"),
        (("--figure", "f.pdf"), "figures are SVG"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = call("fabric", "mfu", "--model", "llama-3.1-405b", *arguments)
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1 and not done.out
    assert not list(Path().iterdir())


def test_unknown_models_and_networks() -> None:
    done = call("fabric", "mfu", "--model", "llama-3.1-405")
    assert done.code == 2 and "no such preset or file; nearest: llama-3.1-405b" in done.err
    Path("mixtral.json").write_text(json.dumps(MIXTRAL))
    done = call("fabric", "mfu", "--model", "mixtral.json", "--arch", "tpuv4", "--all-to-all", "hbd", "--tp", "8")
    assert done.code == 2 and "no model of one on the torus of tpuv4; expected dcn" in done.err
    with pytest.raises(UserError, match="no parts and no bandwidth"):
        domains("ring")


def test_the_gpu_and_its_recipe_are_explained() -> None:
    out = call("explain", "recipe.expert_imbalance").out
    assert "arch/gpus/h100.yaml" in out and "[assumed]" in out and "over the mean" in out
    assert "NVIDIA H100" in json.loads(call("list", "--json", "-").out)["gpus"]["h100"]


def test_the_trend_over_scales() -> None:
    """Over the specification's scales the ratio never falls; over every doubling it does once, 1,024 to 2,048 GPUs."""
    few = trend(mfu_rows(LLAMA, [RING], list(TABLE)), RING.arch)
    every = trend(mfu_rows(LLAMA, [RING], [1024 << step for step in range(8)]), RING.arch)
    assert few["ratio_never_falls"] and few["tp_rises"] and every["tp_rises"]
    assert not every["ratio_never_falls"] and every["ratio_largest_fall"] == pytest.approx(0.00031, abs=0.00002)
