"""Every option of every command: where a result changes its digest does, and equal requests have one digest."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pimloom.arch.digest import plain
from tests.command import call
from tests.slow import slow
from tests.test_spec_digest import ARRIVALS, CONFIG, REQUESTS

LABELS = ("spec_digest", "version", "wall_s", "seed")
MODEL = ("--model", "model.json")
WORDS = {  # that decide nothing of a result
    "run": "json timeline window check quiet", "compare": "json html quiet", "serve": "json timeline html quiet",
    "trace": "json commands request_log timeline window quiet", "aim": "json commands data read quiet",
    "switch": "json csv quiet timeline part",
}  # fmt: skip
DRAWN = ("--arrivals", "poisson:3000/s", "--lengths", "40:6", "--requests", "5")
SERVE = ("serve", "gpu_a100", *MODEL)
GROUPS = "request,arrival,prompt,output,group,shared\n0,0,64,6,a,32\n1,900,70,9,a,32\n2,950,64,6,b,16\n"
GOODPUT = (*SERVE, *DRAWN[:-1], "20", "--goodput", "--slo", "ttft=1ms", "--rate", "100:200000")
DRAFT = "draft=small.json,gamma=2,alpha=0.7"
CASES: dict[str, tuple[tuple[str, ...], Sequence[str]]] = {
    "run pim_gpt": (("run", "pim_gpt", *MODEL, "--generate", "2"),
        ("--generate 3", "--prompt 2", "--lm-head", "--no-lm-head", "--seed 3", "--set npu.clock_mhz=500")),
    "run t4": (("run", "t4", *MODEL, "--generate", "2"), ("--prompt 3", "--lm-head", "--no-lm-head", "--generate 5")),
    "run gpu_a100": (("run", "gpu_a100", *MODEL, "--generate", "9", "--batch", "2", "--prompt", "5"),
        ("--generate 4", "--batch 3", "--prompt 4", "--every 2", "--chunk 3", "--tp 2", "--layers 1", "--lm-head",
         "--no-lm-head")),
    "run npu_pim": (("run", "npu_pim", *MODEL, "--requests", "t.csv", "--batch", "2"),
        ("--iterations 3", "--policy round-robin", "--tp 2", "--layers 1", "--fidelity released",
         "--requests alpaca", "--requests alpaca --seed 3", "--chunk 64")),
    "run a list": (("run", "npu_only", *MODEL, "--requests", "r.csv"), ("--pp 2", "--tp 2", "--requests q.csv")),
    "run cent": (("run", "cent", "--model", "llama-2-7b", "--context", "2"),
        ("--context 3", "--devices 16", "--pp 16", "--tp 2", "--every 1")),
    "run attacc": (("run", "attacc", "--model", "gpt3-175b", "--prompt", "64", "--generate", "9"),
        ("--prompt 65", "--generate 8", "--batch 2", "--every 3", "--fidelity released")),
    "compare": (("compare", "gpu_a100,gpu_h100", *MODEL, "--prompt", "4", "--generate", "9", "--batch", "2"),
        ("--prompt 5", "--generate 8", "--batch 1", "--chunk 3", "--every 1", "--tp 1", "--tp 2", "--layers 1",
         "--lm-head", "--no-lm-head", "--price 1", "--price 1:2", "--set gpu_h100:power_w=200")),
    "serve": ((*SERVE, *DRAWN),
        ("--requests 6", "--arrivals gamma:3000/s,cv=2", "--arrivals burst", "--arrivals closed:2", "--lengths 41:6",
         "--lengths 40:7", "--seed 1", "--scheduler orca", "--scheduler vllm-v0", "--scheduler static",
         "--batch-tokens 64", "--batch 1", "--block-size 8", "--blocks 40", "--long-prompt 16",
         "--num-preallocate-tokens 0 --blocks 12", "--scheduler-reserve-full-isl --blocks 12 --batch-tokens 16",
         "--scheduler vllm-v0 --chunked --batch-tokens 300", "--scheduler vllm-v0 --swap 100 --blocks 9",
         "--replicas 2", "--replicas 2 --router least-waiting", "--tp 2", "--pp 2 --scheduler orca", "--layers 1",
         "--lm-head",
         "--no-lm-head", "--slo ttft=1ms", "--slo ttft=2ms", "--price 1", "--price 2", "--exact", "--sample 2",
         "--price-error 0.05",
         "--speculate medusa", f"--speculate {DRAFT}", f"--speculate {DRAFT},on=t4 --price 1",
         f"--speculate {DRAFT},on=t4 --price 1:2", "--branches 2", "--branches 2 --shared-kv",
         "--branches 2,spread=0.5", "--branches 2 --mode multiverse", "--branches 2 --mode multiverse,share=0.9",
         "--weights int4", "--weights int8", "--density 0.5", "--density 0.5,phase=all", "--overlap nanoflow",
         "--overlap tokenweave --tp 2", "--overlap tokenweave --tp 2 --set link.gbps=100",
         "--finetune sequence=64 --slo tpot=1ms", "--finetune sequence=64,rank=1 --slo tpot=1ms",
         "--scheduler semi-pd", "--scheduler semi-pd --shares prefill=40,decode=60",
         "--scheduler semi-pd --shares prefill=50,decode=50,window=2 --slo ttft=9us,tpot=9us", "--set power_w=200")),
    "serve a trace": ((*SERVE, "--trace", "g.csv", "--blocks", "100"),
        ("--trace t.csv", "--no-prefix-cache", "--prefix-cache", "--requests 2", "--arrivals burst")),
    "serve pools": (("serve", "prefill=gpu_a100,decode=gpu_a100", *MODEL, *DRAWN, "--link", "nvlink"),
        ("--link 1Gb/s", "--link 1Gb/s,1ns", "--transfer layers --link 1Gb/s", "--scheduler splitwise",
         "--scheduler splitwise --mixed", "--scheduler distserve", "--price 1", "--price 1:2", "--slo ttft=1ms")),
    "serve in channels": (("serve", "npu_pim", *MODEL, *DRAWN, "--batch-tokens", "64"),
        ("--policy min-load", "--policy round-robin")),
    "serve windows": (("serve", "gpu_a100", "--model", "windows.json", *DRAWN),
        ("--kv-manager hybrid", "--kv-manager uniform")),
    "serve cut": ((*SERVE, "--trace", "long.csv", "--cut"), ("--trace t.csv",)),
    "goodput": (GOODPUT,
        ("--rate 100:150000", "--rate 200:200000", "--share 0.5", "--slo ttft=2ms", "--price 3", "--replicas 2",
         "--arrivals uniform:3000/s", "--seed 2")),
    "trace": (("trace", "ddr4_3200", "--pattern", "random", "--requests", "60"),
        ("--seed 1", "--gap 3", "--requests 61", "--channels 2", "--mapping row,column,bank,bank_group,channel",
         "--idle 5000", "--controller dramsim3", "--pattern sequential", "--pattern strided --stride 128",
         "--set controller.page=closed")),
    "trace a file": (("trace", "ddr4_3200", "a.trc"), ("--idle 7000", "--channels 2")),
    "aim": (("aim", "p.aim"), ("--channel 1", "--config mine.yaml", "--set drain_from=9")),
    "switch": (("fabric", "switch", "--events", "e.yaml"), ("--set timing.retrain=3ms", "--events f.yaml")),
}  # fmt: skip
LONG = ("goodput", "run cent", "run attacc", "run npu_pim", "serve pools", "serve in channels")
SAME: dict[str, tuple[tuple[str, ...], Sequence[tuple[str, str]]]] = {
    "run": (("run", "gpu_a100", *MODEL, "--generate", "9", "--batch", "2"),
        (("--tp 1", "--layers 2"), ("--prompt 0", "--every 1"), ("--no-lm-head", ""), ("--model copy.json", ""))),
    "run t4": (("run", "t4", *MODEL, "--generate", "2"), (("--no-lm-head", ""), ("--set power_w=70", "--seed 7"))),
    "compare": (("compare", "gpu_a100,t4", *MODEL, "--generate", "2"),
        (("--batch 1", "--prompt 0"), ("--no-lm-head", ""), ("--layers 2", "--every 16"),
         ("--price 2", "--price 2:2.0"))),
    "serve": ((*SERVE, *DRAWN), (
        ("--slo ttft=1s,tpot=50ms", "--slo tpot=50000us,ttft=1000ms"), ("--weights int4", "--weights int4:128"),
        ("--density 0.5", "--density 0.50,phase=prefill"), ("--price 2", "--price 2.00"),
        ("--batch 256", "--batch-tokens 2048"), ("--lm-head", ""), ("--block-size 16", "--sample 5"),
        (f"--speculate {DRAFT}", "--speculate alpha=0.7:0.7,gamma=2,draft=small_copy.json"),
        (f"--speculate {DRAFT},on=t4 --price 2", f"--speculate {DRAFT},on=t4 --price 2:2"),
        ("--speculate medusa", "--speculate medusa,nodes=63"), ("--branches 2", "--branches 2,stop=2,spread=0"),
        ("--branches 2 --mode hogwild", "--branches 2,stop=2 --mode hogwild"),
        ("--scheduler semi-pd", "--scheduler semi-pd --shares decode=50,prefill=50.0"),
        ("--overlap tokenweave --tp 2", "--overlap tokenweave,offset=0,units=132 --tp 2"),
        ("--finetune sequence=64 --slo tpot=1ms", "--finetune rank=16,sequence=64 --slo tpot=1000us"),
        ("--model copy.json", ""), ("--arrivals poisson:3e3/s", ""), ("--num-preallocate-tokens 64", ""),
    )),
    "serve pools": (("serve", "prefill=gpu_a100,decode=gpu_a100", *MODEL, *DRAWN), (
        ("--link nvlink", "--link 2400Gb/s,600ns,5pJ/bit"), ("--link 1Gb/s", "--link 1.0Gb/s,0ns --transfer after"),
        ("--link nvlink --price 2", "--link nvlink --price 2:2.0"),
    )),
    "goodput": (GOODPUT, (("--rate 100:2e5", "--share 0.90"),)),
    "trace": (("trace", "ddr4_3200", "--pattern", "random", "--requests", "60"),
        (("--seed 0", "--channels 1"), ("--idle 0", "--requests 6e1"), ("--controller default", ""))),
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    small = CONFIG | {"n_layer": 1, "n_embd": 128}
    models = {"model": CONFIG, "copy": dict(reversed(CONFIG.items())), "small": small, "small_copy": small}
    texts = {f"{name}.json": json.dumps(one) for name, one in models.items()}
    examples = Path(__file__).parents[1] / "examples"
    events = (examples / "ocs_events.yaml").read_text()
    texts |= {"r.csv": REQUESTS, "q.csv": REQUESTS + "9\n", "t.csv": ARRIVALS, "g.csv": GROUPS, "e.yaml": events}
    texts |= {"long.csv": ARRIVALS.replace("30,4", "3000,4"), "f.yaml": events.replace("12 ms", "13 ms")}
    texts["windows.json"] = (Path(__file__).parent / "models" / "gemma-3-1b.json").read_text()
    texts["a.trc"] = "".join(f"0x{64 * i * 7919:x} READ {4 * i}\n" for i in range(50))
    texts["p.aim"] = (examples / "aim" / "gemv.aim").read_text()
    device = (Path(__file__).parents[1] / "arch" / "aim_devices" / "gddr6_aim.yaml").read_text()
    texts["mine.yaml"] = device.replace("queue_entries: 33", "queue_entries: 34")
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def result(arguments: Sequence[str]) -> tuple[str, Any]:
    """The digest, and all else that a command writes but labels."""
    done = call(*arguments, "--json", "-", "--quiet")
    assert done.code == 0, (arguments, done.err)
    found = json.loads(done.out)
    return found["spec_digest"], plain({name: value for name, value in found.items() if name not in LABELS})


def changed(base: Sequence[str], more: str) -> list[str]:
    """A command with options in place of those that it has."""
    words, found = more.split(), list(base)
    for i, word in enumerate(words):
        if word in found and word != "--set" and i + 1 < len(words):
            at = found.index(word)
            del found[at : at + 2]
    return [*found, *words]


@pytest.mark.parametrize("command", sorted(WORDS))
def test_every_option_is_tried(command):
    """An option stands in a case, or among those that decide nothing."""
    helped = call(*(["fabric"] if command == "switch" else []), command, "--help").out.partition("Example:")[0]
    options = set(re.findall(r"(?<=--)[a-z][a-z-]+", helped)) - {"help"}
    idle = {word.replace("_", "-") for word in WORDS[command].split()}
    cases = [case for case in CASES.values() if command in case[0][:2]]
    tried = {word for base, changes in cases for text in (" ".join(base), *changes)
             for word in re.findall(r"(?<=--)[a-z][a-z-]+", text)}  # fmt: skip
    assert not options - idle - tried


@pytest.mark.parametrize("name", [slow(name) if name in LONG else name for name in CASES])
def test_where_a_result_changes_its_digest_does(name):
    base, changes = CASES[name]
    results = [result(base), *(result(changed(base, more)) for more in changes)]
    named = ["", *changes]
    same, differ = list[tuple[str, str]](), 0
    for i, (one, mine) in enumerate(results):
        for j in range(i):
            other, its = results[j]
            differ += mine != its
            if mine != its and one == other:
                same.append((named[j], named[i]))
    assert not same and differ >= len(changes)


@pytest.mark.parametrize("name", [slow(name) if name in LONG else name for name in SAME])
def test_equal_requests_have_one_digest(name):
    base, pairs = SAME[name]
    for one, other in pairs:
        first, second = (result(changed(base, more)) for more in (one, other))
        assert first[0] == second[0], (one, other)
        assert first[1].keys() == second[1].keys()


def test_what_stands_in_a_file_of_a_draft_decides(here):
    base = [*SERVE, *DRAWN, "--speculate", DRAFT]
    before = result(base)
    (here / "small.json").write_text(json.dumps(CONFIG | {"n_layer": 2, "n_embd": 128}))
    assert result(base)[0] != before[0]


def test_values_that_are_equal_are_one():
    assert plain({"a": (1.0, [2, 3.5]), "b": None, "c": True}) == {"a": [1, [2, 3.5]], "b": None, "c": True}
    with pytest.raises(TypeError):
        plain(object())
