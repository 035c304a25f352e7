"""Embedding, LM head and sampling with --lm-head: in every time, energy and memory of every system, or in none."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.npu_pim.alone import ArraysAlone, without_its_pim
from pimloom.workload.batch import Batch
from pimloom.workload.derive import ops
from pimloom.workload.shard import Shard
from tests.command import call
from tests.test_composed_arrays import BESIDE

FIVE = ["pim_gpt", "npu_only", "neupims", "gpu_a100", "examples/systems/phone.yaml"]
TABLES = {"embed_tokens", "embed_positions", "embed_positions.sum", "norm", "lm_head", "sampling"}
VOCAB, WIDTH = 8192, 256  # narrow, and the head takes longer than all layers
CONFIG = {"model_type": "gpt2", "n_layer": 3, "n_embd": WIDTH, "n_head": 4, "n_positions": 1024, "vocab_size": VOCAB}
GPT2 = replace(
    load_llm("gpt2"), vocab_size=VOCAB, hidden_size=WIDTH, num_attention_heads=4, num_key_value_heads=4,
    intermediate_size=4 * WIDTH,
)  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    model = tmp_path_factory.mktemp("smaller") / "config.json"
    model.write_text(json.dumps(CONFIG))
    return {"model": model, "prompt": 8, "generate": 3}


@pytest.fixture(scope="module")
def both(work: dict[str, Any]) -> list[Any]:
    return [pimloom.compare(FIVE, **work, lm_head=lm_head) for lm_head in (False, True)]


def test_a_comparison_is_with_it_on_every_system_or_on_none(both: list[Any]) -> None:
    assert [found.lm_head for found in both] == [False, True] and both[0].spec_digest != both[1].spec_digest
    assert "left out" in both[0].notes[0] and "are in them" in both[1].notes[0]
    assert "pim_gpt: embedded tokens come from outside" in both[1].notes[1]
    assert all(found.notes[-2].startswith("npu_only, neupims: static is energy.static_w x time") for found in both)
    assert all(": no energy: " in found.notes[-1] or "without standby" in found.notes[-1] for found in both)
    assert [len(found.notes) for found in both] == [3, 4]
    for without, whole in zip(*(found.systems for found in both), strict=True):
        assert without.reason is None and whole.reason is None
        for name in ("latency_s", "time_to_first_token_s", "time_per_output_token_s", "energy_per_token_j"):
            if getattr(without, name) is not None:
                assert getattr(without, name) < getattr(whole, name), (whole.system, name)
        added = whole.memory_needed_bytes - without.memory_needed_bytes
        table, positions = VOCAB * WIDTH * 2, 1024 * WIDTH * 2
        if whole.system == "pim_gpt":  # rows of its banks for the head; no table lies there
            assert table <= added < 1.1 * table
        else:
            assert added == table + positions + 2 * WIDTH * 2  # tied: one table; positions, and the last norm


@pytest.mark.parametrize("name", FIVE)
def test_a_run_with_the_option_is_the_row_of_the_comparison(name: str, both: list[Any], work: dict[str, Any]) -> None:
    for lm_head, found in zip((False, True), both, strict=True):
        row = next(one for one in found.systems if one.system == Path(name).stem)
        options: dict[str, Any] = {} if name == "pim_gpt" else {"batch": 1}
        ran: Any = pimloom.run(name, **work, **options, lm_head=lm_head)
        assert ran.latency_s == pytest.approx(row.latency_s, rel=1e-12)
        assert ran.energy_per_token_j == pytest.approx(row.energy_per_token_j, rel=1e-9)
        there = set(ran.spans["operator"]) & TABLES - {"norm"}  # layers have norms, too
        assert there == (TABLES - {"norm"} if lm_head and name != "pim_gpt" else set())


def test_without_the_option_every_system_has_its_layers_alone(both: list[Any], work: dict[str, Any]) -> None:
    for place, name in enumerate(FIVE):
        options: dict[str, Any] = {} if name == "pim_gpt" else {"batch": 1, "every": 16}
        ran: Any = pimloom.run(name, **work, **options)
        own = both[False].systems[place]
        assert ran.latency_s == pytest.approx(own.latency_s, rel=1e-12)
        if name != "pim_gpt":
            assert not ran.lm_head and ran.spec_digest == own.spec_digest


ANYHOW: dict[str, dict[str, Any]] = {  # a run of each kind without a word about the LM head
    "t4": {"model": "gpt2", "generate": 2},
    "gpu_a100": {"model": "gpt2", "generate": 2, "batch": 2},
    "pim_gpt": {"model": "gpt2", "generate": 1},
    "npu_only": {"model": "gpt2", "generate": 1, "batch": 1, "layers": 1},
    "neupims": {"model": "gpt2", "requests": "alpaca", "batch": 4, "layers": 1},
    "examples/systems/phone.yaml": {"model": "gpt2", "generate": 1, "layers": 1},
    "duplex": {"model": "gpt2", "generate": 1, "layers": 1, "set": {"memory": "ideal"}},
    "attacc": {"model": "gpt3-7b", "generate": 2, "prompt": 8},
    "cent": {"model": "llama-2-7b", "context": 1},
}


@pytest.mark.parametrize("system", ANYHOW)
def test_by_default_no_system_has_it_and_says_so(system: str) -> None:
    found = pimloom.run(system, **ANYHOW[system]).to_dict()
    assert (found.get("workload") or {}).get("lm_head", found.get("lm_head")) is False
    given = {**ANYHOW[system], "lm_head": False}
    same = pimloom.run(system, **given).to_dict()
    assert {**same, "wall_s": 0, "notes": 0} == {**found, "wall_s": 0, "notes": 0}


def test_cent_has_it_as_asked_and_as_its_own_code_has_it() -> None:
    plain, whole = (pimloom.run("cent", model="llama-2-7b", context=1, lm_head=on) for on in (None, True))
    assert plain.ends_s == plain.host_s == 0 < whole.ends_s
    assert whole.latency_s == pytest.approx(plain.latency_s + whole.ends_s + whole.host_s)
    assert whole.lm_head and plain.spec_digest != whole.spec_digest
    assert pimloom.run("cent", model="llama-2-7b", context=128, fidelity="released").lm_head


def test_a_box_that_cannot_have_it_says_so() -> None:
    done = call("run", "attacc", "--model", "gpt3-7b", "--generate", "2", "--lm-head")
    assert done.code == 2 and done.err.startswith("pimloom: --lm-head: attacc") and done.err.count("\n") == 1


def test_what_a_roofline_adds(work: dict[str, Any]) -> None:
    """A kernel for each operator: the head's bytes at the memory's rate, and rows that are looked up and written."""
    settings: dict[str, Any] = {"launch_us": 1}
    plain, whole = (
        pimloom.run("gpu_a100", **work, batch=1, set=settings, lm_head=lm_head).spans for lm_head in (False, True)
    )
    ends = whole[whole["operator"].isin(TABLES)]
    assert len(whole) == len(plain) + 2 * 2 * 6
    head = ends[ends["operator"] == "lm_head"]
    took = (VOCAB * WIDTH + WIDTH + VOCAB) * 2 / 1555e9
    assert ((head["end_ps"] - head["start_ps"]) * 1e-12).tolist() == pytest.approx([took] * 2, abs=1e-9)


def test_a_sequence_on_a_roofline_has_it_too() -> None:
    for name, launches in (("t4", 6), ("gpu_a100", 6)):
        plain: Any = pimloom.run(name, model="gpt2", prompt=8, generate=3)
        whole: Any = pimloom.run(name, model="gpt2", prompt=8, generate=3, lm_head=True)
        spec: Any = load_system(name).spec
        bits = spec.element_bits * 50257 * (768 + 2)  # logits are written and read
        head = bits / 8 / (spec.memory_gb_s * 1e9 * spec.memory_share)
        added = (whole.time_per_output_token_s or 0) - (plain.time_per_output_token_s or 0)
        assert added == pytest.approx(head + launches * spec.launch_us * 1e-6, rel=1e-3)
        assert whole.workload.lm_head and not plain.workload.lm_head and whole.spec_digest != plain.spec_digest
        off: Any = pimloom.run(name, model="gpt2", prompt=8, generate=3, lm_head=False)
        assert off == plain


def test_pim_gpt_takes_its_own_lm_head(work: dict[str, Any]) -> None:
    by_place: Any = pimloom.run("pim_gpt", **work, set={"workload.lm_head": True})
    assert pimloom.run("pim_gpt", **work, lm_head=True) == by_place
    off: Any = pimloom.run("pim_gpt", **work, set={"workload.lm_head": True}, lm_head=False)
    assert off == pimloom.run("pim_gpt", **work)


def test_an_npu_runs_it_as_the_same_arrays_in_a_composition(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(BESIDE)
    neupims = load_system("neupims", {"dram.channels": "4", "packing.constants": "derived"})
    narrow = replace(GPT2, vocab_size=1024)
    mine = device_of(neupims, narrow, Share(1, 2, outside=True))
    composed = device_of(load_system(str(tmp_path / "toy.yaml")), narrow, Share(1, 2, outside=True))
    for batch in (Batch.decode([30, 9, 12]), Batch.prefill([20, 4]), Batch.prefill([20], ends=False)):
        one, other = mine.step(batch), composed.step(batch)
        assert (one.end_ps, one.commands, one.interface_bytes) == (other.end_ps, other.commands, other.interface_bytes)
        assert one.least_ps["memory bandwidth"] == other.least_ps["memory bandwidth"]


def test_its_energy_counts_the_whole_time() -> None:
    system = load_system("npu_only")
    layers, whole = (
        device_of(system, GPT2, Share(2, 1, outside=on)).step(Batch.decode([9] * 4)) for on in (False, True)
    )
    assert layers.device_j is not None and whole.device_j is not None
    spec: Any = system.spec
    added_s = whole.time_s - layers.time_s
    static = whole.device_j["npu_static"] - layers.device_j["npu_static"]
    assert static == pytest.approx(spec.energy.static_w * added_s, rel=1e-9)
    made = [op for op in ops(GPT2, Batch.decode([9] * 4)) if not op.layers]
    macs = whole.device_j["npu_mac"] - layers.device_j["npu_mac"]
    assert macs == pytest.approx(spec.energy.pj_per_mac * 1e-12 * sum(op.macs for op in made) / 2, rel=0.01)
    assert whole.link_bytes > layers.link_bytes and whole.least_ps["link"] > layers.least_ps["link"]


@pytest.mark.parametrize("name", ["npu_only", "neupims", "gpu_a100"])
def test_tables_must_fit(name: str, tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 2,
        "num_key_value_heads": 2, "vocab_size": 80_000_000, "intermediate_size": 512,
    }  # fmt: skip
    (tmp_path / "large.json").write_text(json.dumps(config))
    asked: dict[str, Any] = {"model": tmp_path / "large.json", "prompt": 4, "generate": 1, "batch": 1}
    assert pimloom.run(name, **asked).latency_s
    with pytest.raises(UserError, match="memory|room|rows") as error:
        pimloom.run(name, **asked, lm_head=True)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("neupims", "--generate", "2", "--batch", "4", "--fidelity", "released", "--lm-head"), "--fidelity released"),
    ],
)
def test_what_is_refused(given: tuple[str, ...], said: str) -> None:
    done = call("run", given[0], "--model", "gpt2", *given[1:])
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1


def test_what_is_printed_says_whether_it_is_in() -> None:
    for given, said in ((("--lm-head",), "with embedding and LM head"), ((), "without embedding and LM head")):
        done = call("run", "gpu_a100", "--model", "gpt2", "--prompt", "4", "--generate", "2", "--batch", "1", *given)
        assert f"tensor parallel over 1, {said}" in " ".join(done.out.split())


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("kind", ["embedding", "sampling"])
def test_an_npu_moves_what_the_operator_says(kind: str, tp: int) -> None:
    """Of the embedding the rows that a device of tp has, of sampling all logits in and a token a row out."""
    system = load_system("npu_only")
    made, burst = ops(GPT2, Batch.prefill([9] * 40), Shard(tp=tp)), system.memory.organization.access_bits // 8
    for op in (op for op in made if op.kind == kind):
        took = ArraysAlone(without_its_pim(system), GPT2).took((op,))
        commands, charged = took.commands, took.account.commands
        assert (charged.get("WR"), charged.get("RD")) == (commands.get("WR"), commands.get("RD"))
        read, written = (burst * sum(commands.get(name, 0) for name in both) for both in (("RD", "RDA"), ("WR", "WRA")))
        assert 0 <= read - op.bytes_read <= burst * op.rows, op.name
        assert 0 <= written - op.bytes_written <= burst * op.rows, op.name  # also what controllers hold at the end
