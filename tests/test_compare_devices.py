"""`pimloom compare` of systems that differ in how many devices share a layer."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pimloom
from pimloom.arch.error import UserError
from pimloom.arch.system import load_system
from pimloom.systems.serving.devices import named_settings, tp_of
from tests.command import call

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = ROOT / "arch/systems"
GPT2_LAYERS = 12 * 12 * 768**2 * 2  # bytes of the matrices, 16 bits each


def compared(systems: list[Any], **options: Any) -> Any:
    asked: dict[str, Any] = {"model": "gpt2", "generate": 2} | options
    return pimloom.compare(systems, **asked)


@pytest.mark.parametrize(("system", "own"), [("duplex", 4), ("gpu_a100", 1), ("npu_only", 1)])
def test_memory_is_that_of_all_devices_whoever_says_how_many(system: str, own: int) -> None:
    (plain,) = compared([system]).systems
    (asked,) = compared([system], tp=own if own > 1 else None).systems
    assert plain == asked and plain.tp == own  # the same devices, the same row
    (twice,) = compared([system], tp=2).systems
    assert twice.tp == 2
    assert Fraction(twice.memory_bytes, 2) == Fraction(plain.memory_bytes, own)  # devices are alike
    for row in (plain, twice):  # what the model takes does not grow with devices, but for what is rounded up
        assert GPT2_LAYERS < row.memory_needed_bytes < 1.02 * GPT2_LAYERS


def test_memory_of_all_nodes(tmp_path: Path) -> None:
    text = (SYSTEMS / "duplex.yaml").read_text()
    rows = []
    for nodes, devices in ((1, 4), (2, 4), (2, 1)):
        file = tmp_path / f"n{nodes}d{devices}.yaml"
        changed = text.replace("\nnodes: 1 ", f"\nnodes: {nodes} ").replace("\ndevices: 4 ", f"\ndevices: {devices} ")
        file.write_text(changed)
        assert (nodes, devices) == (1, 4) or changed != text
        (row,) = compared([file]).systems
        rows.append((row.memory_bytes, nodes * devices))
    assert len({Fraction(there, devices) for there, devices in rows}) == 1


def test_energy_of_cent_is_that_of_its_devices_once() -> None:
    """They are in its figures already: two that share a layer draw about what each alone does, not twice as much."""
    options: dict[str, Any] = {"model": "llama-2-7b", "generate": 1}
    one, two = (compared(["cent"], tp=tp, **options).systems[0] for tp in (None, 2))
    for row in (one, two):
        assert row.memory_bytes == 32 * 2**34  # 32 devices of 32 channels of 512 MiB
    assert two.energy_by_cause_j["near_memory"] < 1.5 * one.energy_by_cause_j["near_memory"]


def test_the_header_says_what_each_system_has() -> None:
    done = call("compare", "duplex,gpu_a100,t4", "--model", "gpt2", "--generate", "1")
    assert "tensor parallel over 4 (duplex) and 1 (gpu_a100, t4), without" in " ".join(done.out.split())
    found = compared(["duplex", "gpu_a100"])
    assert found.tp is None and [one.tp for one in found.systems] == [4, 1]
    assert any("duplex: 4 devices share each layer, as its file has it" in note for note in found.notes)
    same = call("compare", "duplex,gpu_a100", "--model", "gpt2", "--generate", "1", "--tp", "2")
    assert "tensor parallel over 2, without" in " ".join(same.out.split()) and "as its file has it" not in same.out


def test_how_tokens_choose_experts_is_told(tmp_path: Path) -> None:
    """Rooflines take the mean of all draws, other systems draw; what is dealt or skewed is said, too."""
    text = (SYSTEMS / "duplex.yaml").read_text().replace("memory: simulated", "memory: ideal")
    text = text.replace("contention: true", "contention: false")
    files = {name: tmp_path / f"{name}.yaml" for name in ("draws", "even", "skewed")}
    files["draws"].write_text(text)
    files["even"].write_text(text.replace("drawn: true", "drawn: false"))
    files["skewed"].write_text(text.replace("zipf: 0 ", "zipf: 1 "))

    def told(*systems: Any, model: str = "mixtral-8x7b") -> list[str]:
        found = compared(list(systems), tp=4, model=model, batch=4, layers=1)
        return [note for note in found.notes if "experts" in note]

    drawn, even, skewed, mean = told(*files.values(), "gpu_h100")
    assert drawn.startswith("draws: each token chooses its experts independently, all equally likely: a step of 4 ")
    assert "uses 5.47 of 8 in a layer in the mean; steps are draws, routing.seed=0" in drawn
    assert even.startswith("even: tokens are distributed over experts (routing.drawn=false): a step of 4 tokens uses ")
    assert skewed.startswith("skewed: each token chooses its experts independently, by Zipf 1: ")
    assert mean.startswith("gpu_h100: each token") and mean.endswith("; the exact mean is priced.")
    assert not told(files["draws"], "gpu_h100", model="gpt2")  # which has none


@pytest.mark.parametrize(("system", "place", "model"), [("attacc", "gpus", "gpt3-7b"), ("duplex", "devices", "gpt2")])
def test_one_device_of_a_system_that_has_several(system: str, place: str, model: str) -> None:
    found = compared([system, "gpu_a100"], tp=1, model=model)
    one, _ = found.systems
    assert (one.tp, one.devices, found.tp) == (1, 1, 1)
    by_place = compared([system, "gpu_a100"], set={f"{system}:{place}": 1}, model=model).systems[0]
    assert one == by_place and one.latency_s != compared([system], model=model).systems[0].latency_s
    two = compared([system], tp=2, model=model).systems[0]
    assert two.devices == 2


def test_settings_of_one_system() -> None:
    plain, named = (compared(["t4", "gpu_a100"], set=given) for given in (None, {"t4:memory_gb_s": 640}))
    assert named.systems[1] == plain.systems[1] and named.systems[0].memory_gb_s == 640
    assert named.systems[0].spec_digest == pimloom.run("t4", model="gpt2", generate=2, batch=1, every=16, set={
        "memory_gb_s": 640}).spec_digest  # fmt: skip
    assert named.spec_digest != plain.spec_digest
    path = SYSTEMS / "t4.yaml"
    for system in ("t4", "t4.yaml", path):
        assert compared([path, "gpu_a100"], set={f"{system}:memory_gb_s": 640}).spec_digest == named.spec_digest
    assert compared(["t4"], set={"memory_gb_s": 640}).systems[0] == named.systems[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "power_w=60",
            "--set power_w=60: expected its system before it, such as t4:power_w=60, or another of t4, gpu_",
        ),
        ("t5:power_w=60", "--set t5:power_w=60: no system t5; expected one of t4, gpu_a100"),
        ("t4:powr_w=60", "--set t4:powr_w: no such key in t4.yaml; nearest: power_w"),
        ("t4:power_w=lots", "--set t4:power_w: expected "),
        ("t4:power_w", "--set t4:power_w: expected KEY=VALUE"),
    ],
)
def test_settings_that_are_refused(given: str, said: str) -> None:
    done = call("compare", "t4,gpu_a100", "--model", "gpt2", "--generate", "1", "--set", given)
    assert done.code == 2 and done.err.startswith(f"pimloom: {said}") and done.err.count("\n") == 1


def test_sizes_stand_beside_rates() -> None:
    found = compared(["attacc", "gpu_a100"], model="gpt3-7b", price="2:4")
    attacc, gpu = found.systems
    assert (attacc.devices, gpu.devices) == (8, 1) and (attacc.usd_per_h, gpu.usd_per_h) == (16, 4)
    assert gpu.memory_gb_s == 1555 and attacc.memory_gb_s == pytest.approx(8 * (3352 + 5 * 665.6))
    for row in (attacc, gpu):
        by = row.tokens_per_s_by_size
        assert by["device"] == row.tokens_per_s / row.devices and by["usd_per_h"] == row.tokens_per_s / row.usd_per_h
        assert by["memory_gb_s"] == row.tokens_per_s / row.memory_gb_s
        assert by["w"] == pytest.approx(1 / row.energy_per_token_j)
    assert found.first == "attacc" and found.first_by_size["device"] == "gpu_a100"
    assert "attacc (8 devices, 53.4 TB/s) ends first" in found.why and "per device and per" in found.why
    assert found.spec_digest != compared(["attacc", "gpu_a100"], model="gpt3-7b").spec_digest


def test_advice_is_what_the_command_takes() -> None:
    done = call("compare", "duplex", "--model", "gpt3-175b", "--generate", "1")
    assert done.code == 2 and done.err.rstrip().endswith("take 6 (--tp 6)") and "--set" not in done.err
    refused = compared(["attacc", "gpu_a100"]).systems[0].reason
    assert refused.startswith("attacc has 8 GPUs, and 8 does not divide the heads of gpt2, 12; take one of 1, 2, 3, 4,")
    assert refused.endswith("(--tp N)")
    alone = call("run", "duplex", "--model", "gpt3-175b", "--prompt", "1", "--generate", "1", "--tp", "2")
    assert alone.code == 2 and alone.err.rstrip().endswith("take 6 (--tp 6)")


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("take 6 (--set devices=6)", "take 6 (--tp 6)"),
        ("more (--set nodes, --set devices) or x=false", "more (--set duplex:nodes, --tp) or x=false"),
        ("take 16 (--set nodes=2 --set devices=8)", "take 16 (--set duplex:nodes=2 --set duplex:devices=8)"),
        ("--set pim: none leaves nothing", "--set duplex:pim: none leaves nothing"),
        ("take fewer requests", "take fewer requests"),
    ],
)  # fmt: skip
def test_settings_are_named_by_their_system(reason: str, told: str) -> None:
    assert named_settings(load_system("duplex"), reason) == told


def test_devices_are_said_once() -> None:
    for devices in ("4", "8"):
        with pytest.raises(UserError, match="--tp 8: --set devices says so, too; leave one of the two out"):
            tp_of(load_system("duplex", {"devices": devices}), 8)
    assert tp_of(load_system("duplex", {"devices": "8"}), None) == 8 and tp_of(load_system("duplex"), 8) == 8
