"""Refusals name a number, an option or a file that works instead."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.command import call

SERVED = "serve gpu_a100 --model llama-3-8b --arrivals burst --lengths 100:20 --requests 3"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run npu_pim --model gpt3-7b --tp 7 --prompt 9", "(32 of keys) of gpt3-7b; nearest: 4 or 8"),
        ("compare attacc,neupims --model gpt3-7b --tp 3", "(32 of keys) of gpt3-7b; nearest: 2 or 4"),
        ("run attacc --model gpt3-175b --set gpus=7", "of the model, 96, got 7; nearest: 6 or 8"),
        ("run attacc --model llama-2-70b --set gpus=16", "of keys of the model, 8, got 16; nearest: 8"),
        ("run duplex --model mixtral-8x7b --set nodes=3 --prompt 9", "come out even over 12 devices; nearest: 2 or 4"),
        (f"{SERVED} --branches 4,share=0.5 --mode multiverse", "--branches 4,share=0.5: share belongs to --mode, such "
         "as --mode multiverse,share=0.5"),
        (f"{SERVED} --branches 4,step=9 --mode sart", "step belongs to --mode, such as --mode sart,step=9"),
        (f"{SERVED} --branches 4,below=0.1", "below belongs to --mode, such as --mode sart,below=0.1"),
        (f"{SERVED} --share 0.5", "--share 0.5: belongs to --goodput; leave it out"),
        (f"{SERVED} --router least-waiting", "least-waiting: chooses among --replicas N, and there is one; leave it"),
        (f"{SERVED} --exact --sample 3", "--sample 3: --exact reads no iteration between others; leave it out"),
        (f"{SERVED} --blocks 2", "needs 8 blocks of KV cache, and there are 1 for it under vllm-v1; it could never run"
         "; the longest, request 0, needs 9 in all, take --blocks 9 or more"),
    ],
)  # fmt: skip
def test_what_works_instead(command: str, said: str) -> None:
    done = call(*command.split())
    assert done.code == 2 and done.out == "" and said in done.err and done.err.count("\n") == 1


def test_the_blocks_that_are_named_suffice(tmp_path: Path) -> None:
    assert call(*SERVED.split(), "--blocks", "9", "--quiet").code == 0
    assert call(*SERVED.split(), "--blocks", "8", "--quiet").code == 2


def test_files_that_are_not_what_is_expected(tmp_path: Path) -> None:
    wrong = tmp_path / "result.json"
    wrong.write_text(json.dumps({"system": "pim_gpt"}))
    done = call("run", wrong, "--model", "gpt2")
    assert done.code == 2 and f"{wrong}: a system is a file that ends in .yaml and has `kind` and the keys" in done.err
    program = tmp_path / "p.aim"
    program.write_text("AiM EOC\n")
    files = ("--data", tmp_path / "none.npy", "--read", tmp_path / "out.npy")
    done = call("aim", program, *files)
    assert done.code == 2 and f"--data {files[1]}: no such file; expected a .npy file of numbers[n, 16]" in done.err
    np.save(tmp_path / "none.npy", np.zeros((2, 3)))
    done = call("aim", program, *files)
    assert done.code == 2 and f"--data {files[1]}: expected a .npy file of numbers[n, 16]" in done.err


def test_energies_without_power_at_rest_are_marked() -> None:
    """AttAcc's energy is of what works; a roofline's is power x time."""
    asked = ("compare", "attacc,gpu_a100", "--model", "gpt3-7b", "--prompt", "9", "--generate", "2")
    lines = call(*asked).out.splitlines()
    attacc, gpu = (next(line for line in lines if line.startswith(f" {name} ")) for name in ("attacc", "gpu_a100"))
    assert " * " in attacc and "*" not in gpu and "*: what works alone; its power at rest has no figure" in lines
    alone = call("compare", "gpu_a100", *asked[2:]).out
    assert "*" not in alone
