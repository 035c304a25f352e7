"""Refusals name a number, an option or a file that works instead."""

import json
from pathlib import Path

import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.systems.serving.pools.written import parse_pools
from tests.command import call

SERVED = "serve gpu_a100 --model llama-3-8b --arrivals burst --lengths 100:20 --requests 3"
LONG = "serve gpu_a100 --model gpt2-xl --arrivals burst --lengths 1000:26 --requests"
SWAPPED = (
    "serve gpu_a100 --model gpt2 --arrivals burst --lengths 128:164 --requests 4 --scheduler vllm-v0 --blocks 40 --swap"
)


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
        (f"{SERVED} --scheduler vllm-v0 --batch-tokens 90", "it could never run; take --batch-tokens 100 or --chunked w"
         "ith --batch 90"),
        (f"{SERVED} --scheduler vllm-v0 --batch-tokens 90 --batch 9", "take --batch-tokens 100 or --chunked\n"),
        (f"{SERVED} --scheduler lightllm --batch-tokens 90", "take --batch-tokens 100\n"),
        (f"{SERVED} --scheduler vidur-vllm --batch-tokens 90", "take --batch-tokens 100\n"),
        (f"{SWAPPED} 8", "10 blocks to swap out, and 8 of the host's 8 are free; take --swap 10 or more, or leave it"),
        ("serve gpu_a100 --model llama-3-70b --tp 2 --arrivals burst --requests 4", "llama-3-70b: its weights take 65"
         ".71 GiB of a device, and gpu_a100 has 40.00 GiB, which leaves no room for keys and values; take 4 devices ("),
        ("serve attacc --model gpt2 --arrivals burst --requests 4", "attacc has 8 GPUs, and 8 does not divide the hea"
         "ds of gpt2, 12; take one of 1, 2, 3, 4, 6, 12 (--set gpus=N)"),
        (f"{LONG} 1", "does not fit the 1,024 po"
         "sitions of gpt2-xl; take"),
        (f"{LONG} 2", "gpt2-xl, nor does 1 more; t"),
        (f"{LONG} 3", "gpt2-xl, nor do 2 more; ta"),
        (f"{SERVED} --share 0.5", "--share 0.5: belongs to --goodput; leave it out"),
        (f"{SERVED} --router least-waiting", "least-waiting: chooses among --replicas N, and there is one; leave it"),
        (f"{SERVED} --exact --sample 3", "--sample 3: --exact interpolates no price; leave it out"),
        (f"{SERVED} --blocks 2", "needs 8 blocks of KV cache, and there are 1 for it under vllm-v1; it could never run"
         "; the longest, request 0, needs 9 in all, take --blocks 9 or more"),
    ],
)  # fmt: skip
def test_what_works_instead(command: str, said: str) -> None:
    done = call(*command.split())
    assert done.code == 2 and done.out == "" and said in done.err and done.err.count("\n") == 1


POOLS = {  # as typed: which part is wrong
    "prefill=gpu_a100:xx2,decode=t4": "expected :tpN or :ppN behind gpu_a100 and its *N, got ':xx2'",
    "prefill=t4:tp2*2,decode=t4": "expected :tpN or :ppN behind t4 and its *N, got ':tp2'",
    "prefill=t4,decode=t4*2:pp2:zz": "decode: ':zz' is neither :tpN nor :ppN",
    "prefil=t4,decode=t4": "'prefil' is no pool; nearest: prefill",
    "prefill=t4*-1,decode=t4": "prefill: '-1' is no number of copies",
    "prefill=t4,decode=t4,decode=t4": "decode is given twice",
    "prefill=,decode=t4": "prefill: no system is named",
    "prefill=t4,decode": "decode: no system is named",
    "decode=t4": "there is no prefill",
    "decode=t4,prefill=t4": "prefill comes before decode",
}


@pytest.mark.parametrize("pools", POOLS)
def test_the_part_of_pools_that_is_wrong(pools: str) -> None:
    with pytest.raises(UserError) as error:
        parse_pools(pools, "nvlink3")
    assert str(error.value).startswith(f"{pools}: {POOLS[pools]}") and "\n" not in str(error.value)


@pytest.mark.parametrize("pools", ["prefill=a/b:c.yaml*2:tp2,decode=t4", "prefill = t4 * 3 : pp2 : tp2, decode=t4"])
def test_pools_that_can_be(pools: str) -> None:
    made = parse_pools(pools, "nvlink3")
    assert made is not None and made.prefill.tp == 2 and made.prefill.replicas == (2 if "yaml" in pools else 3)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("a.csv", "timestamp,prompt_tokens,output_tokens or TIME"),
        ("a.jsonl", "timestamp,input_length,output_length or"),
    ],
)
def test_an_empty_trace_is_told_what_it_may_have(tmp_path: Path, name: str, columns: str) -> None:
    (tmp_path / name).write_text("\n")
    done = call("serve", "gpu_a100", "--model", "gpt2", "--trace", str(tmp_path / name))
    assert done.code == 2 and f"{name}: the file is empty; expected {columns}" in done.err


def test_the_swap_and_the_tokens_that_are_named_suffice() -> None:
    most = 1
    while (done := call(*SWAPPED.split(), str(most), "--quiet")).code:
        least = int(done.err.split("take --swap ")[1].split(" ")[0])
        assert most < least < 40
        most = least
    assert most >= 10
    assert call(*SERVED.split(), "--scheduler", "vllm-v0", "--batch-tokens", "100", "--quiet").code == 0
    assert (
        call(*SERVED.split(), "--scheduler", "vllm-v0", "--batch-tokens", "90", "--chunked", "--batch", "90").code == 0
    )


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
    said = f"--data {files[1]}: its header says float64[2, 3]; expected a .npy file of numbers[n, 16]"
    assert done.code == 2 and said in done.err


def test_energies_that_are_bounds_are_marked() -> None:
    """AttAcc's energy is of what works; a roofline's is power x time."""
    asked = ("compare", "attacc,gpu_a100", "--model", "gpt3-7b", "--prompt", "9", "--generate", "2")
    lines = call(*asked).out.splitlines()
    attacc, gpu = (next(line for line in lines if line.startswith(f" {name} ")) for name in ("attacc", "gpu_a100"))
    assert " ≥ " in attacc and " ≤ " in gpu
    alone = call("compare", "gpu_a100", *asked[2:]).out
    assert "*" not in alone


def test_a_seed_that_draws_nothing_and_requests_that_are_not_there(tmp_path: Path) -> None:
    trace = tmp_path / "few.csv"
    trace.write_text("timestamp,prompt_tokens,output_tokens\n0,9,4\n1,9,4\n")
    served = ["serve", "gpu_a100", "--model", "gpt2", "--trace", str(trace), "--quiet", "--seed", "3"]
    for idle in (["--exact"], ["--sample", "0"]):
        done = call(*served, *idle)
        assert done.code == 2 and "--seed 3: nothing is drawn beside the trace; leave it out" in done.err
    drawn = ["--branches 2,spread=0.5", "--speculate draft=gpt2,gamma=2,alpha=0.5", "--arrivals poisson:2/s"]
    for words in ("--sample 2", *(f"{each} --exact" for each in drawn)):
        assert call(*served, *words.split()).code == 0
    said = "note: few.csv has 2 requests, not the 1,000 of --requests"
    more = {n: call(*served[:6], "--exact", "--requests", n).err for n in ("1", "2", "1000")}
    assert [said in err for err in more.values()] == [False, False, True]
