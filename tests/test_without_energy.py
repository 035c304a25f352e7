"""Where a result has no energy, or not all of it, what is printed names the key that would give it."""

from pathlib import Path

import pytest

import pimloom
from pimloom.arch.system import load_system
from pimloom.systems.devices.without_energy import energy_note, standby_note, why_no_energy
from tests.command import call
from tests.test_composed import TOY

TWO = """
description: two processors, of which one embeds and samples
kind: composed
element_bits: 16
memories:
  hbm: {gb_s: 1000, bytes: 64000000000, pj_per_bit: 4}
  host: {gb_s: 100, bytes: 64000000000, pj_per_bit: 10}
units:
  gpu: {type: roofline, memory: hbm, peak_tflops: 100, peak_share: 1, memory_share: 1, launch_us: 1, power_w: 300}
  cpu: {type: roofline, memory: host, peak_tflops: 1, peak_share: 1, memory_share: 1, launch_us: 1}
links:
  pcie: {between: [hbm, host], gbps: 256, latency_ns: 500, pj_per_bit: 5}
runs:
  prefill: {embedding: cpu, sampling: cpu, all: gpu}
  decode: {embedding: cpu, sampling: cpu, all: gpu}
overlap: serial
"""
CARD = "examples/systems/pim_card.yaml"


def test_pim_gpt_names_the_currents_of_its_part(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = Path("arch/systems/pim_gpt.yaml").read_text()
    assert "part: gddr6_pim_gpt" in text
    file.write_text(text.replace("part: gddr6_pim_gpt", "part: gddr6_aim"))
    done = call("run", file, "--model", "gpt2", "--generate", "1")
    said = "no energy: dram.part gddr6_aim gives no dram.current.IDD0, IDD3N, IDD4R, IDD4W, IDD5B"
    assert done.code == 0 and said in " ".join(done.out.split())


def test_an_npu_names_its_section_or_its_currents() -> None:
    hbm3 = {"dram.part": "hbm3_6400"}
    work = ("--model", "gpt2", "--prompt", "8", "--generate", "1", "--layers", "1")
    done = call("run", "npu_only", *work, "--set", "dram.part=hbm3_6400")
    assert "no energy: dram.part hbm3_6400 gives no dram.current.IDD0" in done.out, done
    assert why_no_energy(load_system("npu_only")) is None
    assert (why_no_energy(load_system("npu_only", hbm3)) or "").startswith("no energy: dram.part hbm3_6400")


def test_a_composed_system_names_units_memories_and_links() -> None:
    said = "no energy: the system gives no units.pim.power_w, units.host.power_w, memories.card.pj_per_bit, "
    said += "memories.ddr4.pj_per_bit, links.pcie.pj_per_bit"
    done = call("run", CARD, "--model", "gpt2", "--prompt", "8", "--generate", "1", "--layers", "1")
    assert said in " ".join(done.out.split()), done
    found = pimloom.compare([CARD, "gpu_a100"], model="gpt2", prompt=8, generate=1)
    assert f"pim_card: {said}." in found.notes


def test_what_has_all_its_energy_says_nothing(tmp_path: Path) -> None:
    for name in ("pim_gpt", "neupims", "npu_pim", "npu_only", "gpu_a100"):
        assert why_no_energy(load_system(name), 4) is None and standby_note(load_system(name)) is None
    (tmp_path / "toy.yaml").write_text(TOY)
    toy = load_system(str(tmp_path / "toy.yaml"))
    assert why_no_energy(toy, 2) is None
    said = "DRAM energy of card is standby and refresh: activations, reads and writes are in it as far as power_w "
    said += "and pj_per_bit hold them; "
    said += "energy is without standby of host: only parts with currents (IDD2N, IDD3N) have one"
    assert standby_note(toy) == energy_note(toy, 2, told=True) == said
    assert energy_note(toy, 2, told=False) is None


def test_units_that_do_not_work_need_no_figure(tmp_path: Path) -> None:
    """Embedding and sampling are left out, and with them all work of the processor that has no power."""
    file = tmp_path / "two.yaml"
    file.write_text(TWO)
    work = ("--model", "gpt2", "--prompt", "8", "--generate", "2", "--layers", "1")
    alone, whole = (call("run", file, *work, f"--{what}") for what in ("no-lm-head", "lm-head"))
    lacks = "no energy: the system gives no units.cpu.power_w"
    assert "J of all devices" in alone.out and "no energy" not in alone.out, alone
    assert lacks in whole.out and "J of all devices" not in whole.out, whole
    notes = pimloom.compare([file, "gpu_a100"], model="gpt2", prompt=8, generate=2, layers=1).notes
    assert not any("no energy" in note for note in notes)


@pytest.mark.parametrize("key", ["power_w: 7", "pj_per_bit: 3", "pj_per_bit: 5"])
def test_each_key_that_is_named_is_the_one_that_lacks(key: str, tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(TOY.replace(f", {key}", ""))
    places = {"power_w: 7": "units.pim.power_w", "pj_per_bit: 3": "memories.card.pj_per_bit"}
    found = why_no_energy(load_system(str(tmp_path / "toy.yaml")))
    assert found == f"no energy: the system gives no {places.get(key, 'links.pcie.pj_per_bit')}"
