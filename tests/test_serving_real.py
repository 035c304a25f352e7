"""vLLM on a real GPU beside our vLLM on a roofline of it at equal KV cache: nothing is fitted, the gap is shown."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pimloom
from tests.reference_data import reference_cases

# [recalled] NVIDIA's Ada architecture paper: FP16 tensor cores with FP32 accumulation, dense; GDDR6X; board power
ROOFLINES: dict[str, dict[str, Any]] = {
    "NVIDIA GeForce RTX 4090": {
        "peak_tflops": 165.2, "memory_gb_s": 1008, "memory_bytes": 24_000_000_000, "power_w": 450,
    },
}  # fmt: skip
MODELS = {"meta-llama/Llama-3.1-8B": "llama-3-8b"}  # the same layers; the requests are shorter than its 8,192 positions
LATER: dict[str, Any] = {"num_preallocate_tokens": 0, "scheduler_reserve_full_isl": True}  # of vLLM 0.19
GAP = 0.25  # of times: a roofline is a lower bound of a kernel's time, and has no launches, no scheduler, no sampling


def columns(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("case", reference_cases("serving/vllm_real"))
def test_the_gap_to_a_real_gpu(case, tmp_path):
    config = json.loads((case / "config.json").read_text())
    device, model = config.get("hardware", {}).get("device_name"), MODELS.get(config["model"])
    if device not in ROOFLINES or model is None or "kv_cache" not in config:
        pytest.skip(f"no roofline of {device} without fitting it, or its KV cache is not told")
    asked, real = columns(case / "requests.csv"), columns(case / "expected.csv")
    lengths = [asked[name].astype(int) for name in ("prompt", "output")]
    rows = zip(asked["arrival_s"], *lengths, strict=True)
    trace = tmp_path / "trace.csv"
    trace.write_text("timestamp,prompt_tokens,output_tokens\n" + "".join(f"{t:.6f},{p},{o}\n" for t, p, o in rows))
    engine, cache = config["engine_kwargs"], config["kv_cache"]
    found = pimloom.serve(
        "gpu_a100", model=model, trace=trace, blocks=cache["num_gpu_blocks"], block_size=cache["block_size"],
        batch=engine["max_num_seqs"], batch_tokens=engine["max_num_batched_tokens"], set=ROOFLINES[device], sample=50,
        **(LATER if tuple(map(int, config["vllm_version"].split("."))) >= (0, 19) else {}),
    )  # fmt: skip
    theirs = {
        "time to first token": (real["first_token_s"] - asked["arrival_s"]).mean(),
        "time per output token": ((real["last_token_s"] - real["first_token_s"]) / (lengths[1] - 1)).mean(),
        "latency": (real["last_token_s"] - asked["arrival_s"]).mean(),
        "all": real["last_token_s"].max(),
    }
    ours = (found.time_to_first_token_s, found.time_per_output_token_s, found.latency_s)
    times = dict(zip(theirs, [*(each.mean for each in ours), found.time_s], strict=True))
    for name, time in times.items():
        print(f"{case.name}: {name} {time:.4g} s, measured {theirs[name]:.4g} s, {time / theirs[name] - 1:+.1%}")
        assert -GAP < time / theirs[name] - 1 < 0.02, name
