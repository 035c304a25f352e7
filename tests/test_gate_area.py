"""Area of a system by the gates of our own blocks."""

import pytest

import pimloom
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import PimSystem, load_system
from pimloom.energy.gate_area import NAND2_UM2, PARTS, gates
from pimloom.systems.devices.area import area_by_part_mm2, area_mm2, of_devices


def test_each_line_names_the_command_that_printed_it() -> None:
    for name, line in gates().items():
        assert line.nand2 > 100 and line.of and line.command.startswith("pimloom rtl synth "), name
    assert pytest.approx(0.798) == NAND2_UM2  # um2
    assert {"pim_unit", "ws_element", "os_element", "npu_vector", "npu_tiles", "interleave"} < set(gates())


def test_an_npu_with_pim_is_gates_times_a_nand2() -> None:
    system = load_system("neupims")
    spec, found = system.of_kind(NpuPimSystem), area_by_part_mm2(system)
    assert tuple(found) == PARTS
    nand2 = {name: line.nand2 * 0.798e-6 for name, line in gates().items()}
    assert found["arrays"] == pytest.approx(8 * 128**2 * nand2["ws_element"])
    assert found["vector_units"] == pytest.approx(8 * 128 * nand2["npu_vector"])
    assert found["sequencers"] == pytest.approx(8 * nand2["npu_tiles"] + nand2["interleave"])
    banks = system.memory.organization.banks
    assert (banks, spec.dram.channels) == (32, 32)
    assert found["pim_units"] == pytest.approx(32 * 32 * nand2["pim_unit"] * 1.5)
    assert found["controllers"] == pytest.approx(32 * nand2["npu_pim_channel"])


def test_an_npu_without_pim_has_no_units_and_no_controller_of_ours() -> None:
    found = area_by_part_mm2(load_system("npu_only"))
    assert found["pim_units"] == 0 and found["controllers"] is None and found["arrays"]


def test_pim_gpt_has_its_banks_and_channels() -> None:
    system = load_system("pim_gpt")
    spec, found = system.of_kind(PimSystem), area_by_part_mm2(system)
    banks = spec.dram.channels * system.memory.organization.banks
    scale = (28 / 45) ** 2 * 0.798e-6
    assert found["pim_units"] == pytest.approx(banks * gates()["pim_unit"].nand2 * scale * 1.5)
    assert found["controllers"] == pytest.approx(spec.dram.channels * gates()["sequencer"].nand2 * scale)
    assert [part for part, area in found.items() if area is None] == ["arrays", "vector_units", "sequencers"]


def test_what_ours_are_not_made_for_is_none() -> None:
    for key, value, gone in (
        ("npu.element_bits", 8, {"arrays", "vector_units", "pim_units"}),
        ("dram.lanes", 32, {"pim_units"}),
        ("npu.rows", 64, {"sequencers"}),
        ("interleave.sub_batches", 3, {"sequencers"}),
    ):
        found = area_by_part_mm2(load_system("neupims", {key: str(value)}))
        assert {part for part, area in found.items() if area is None} == gone
    assert area_by_part_mm2(load_system("npu_pim"))["controllers"] is None  # one row buffer
    assert area_by_part_mm2(load_system("gpu_a100")) == {} and area_mm2(load_system("gpu_a100")) is None
    assert of_devices({"a": 2.0, "b": None}, 4) == {"a": 8.0, "b": None}


def test_a_comparison_has_the_parts_of_all_devices() -> None:
    found = pimloom.compare(["npu_only", "gpu_a100"], model="gpt2", prompt=4, generate=2, batch=2)
    npu, gpu = found.systems
    one = area_by_part_mm2(load_system("npu_only"))
    assert npu.area_by_part_mm2 == one and gpu.area_by_part_mm2 is None
