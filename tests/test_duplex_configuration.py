"""Duplex's numbers against those that the paper prints, and its energies against those of the later simulator."""

import pytest

from pimloom.arch.duplex import load_duplex
from pimloom.arch.error import UserError
from pimloom.energy.duplex import ACT_PJ, ALL_BANKS, COLUMN_PJ, MAC_PJ, PJ_PER_BIT, BankCounts, memory_pj


def test_logic_die_has_the_published_area() -> None:
    device = load_duplex()
    assert device.logic_area_mm2 == pytest.approx(17.80, abs=0.02)
    assert 100 * device.logic_area_share == pytest.approx(14.71, abs=0.02)


def test_logic_pim_has_the_published_rate() -> None:
    device = load_duplex()
    assert device.spec.logic_pim.tflops == pytest.approx(21.2992) and round(device.spec.logic_pim.tflops, 1) == 21.3
    assert device.logic_op_per_byte == pytest.approx(8.0, abs=0.005)
    assert device.logic_flops == pytest.approx(106.5e12, rel=1e-3)


def test_device_has_the_published_bandwidth() -> None:
    device = load_duplex()
    assert device.stack_gb_s == pytest.approx(665.6) and device.xpu_bytes_s == pytest.approx(3.328e12)
    assert device.logic_bytes_s == pytest.approx(13.312e12) and f"{device.logic_bytes_s / 1e12:.1f}" == "13.3"
    other = load_duplex(overrides={"xpu_gb_s": "3352"})
    assert (other.xpu_bytes_s, other.logic_bytes_s) == (3.352e12, 13.408e12)
    assert device.pseudo_channels == 160 and device.spec.memory_bytes == 80 * 2**30


def test_fields_of_the_part_are_overridden_by_name() -> None:
    assert load_duplex(overrides={"part.timing.tRFC": "450 ns"}).part.cycles("tRFC") == 586
    with pytest.raises(UserError, match="expected duplex, got null"):
        load_duplex(overrides={"part": "hbm3_6400"})


@pytest.mark.parametrize(
    ("path", "per_bit", "column_nj", "banks"),
    [("xpu", 3.48, 0.891, 1), ("logic", 1.81, 0.464, 8), ("bank_group", 2.68, 0.686, 8), ("bank", 0.73, 0.187, 32)],
)
def test_energies_are_those_of_the_table(path: str, per_bit: float, column_nj: float, banks: int) -> None:
    assert PJ_PER_BIT[path] == pytest.approx(per_bit) and ALL_BANKS[path] == banks
    assert COLUMN_PJ[path] == pytest.approx(1000 * column_nj)
    least, most = ((per_bit + by) * 256 for by in (-0.005, 0.005))  # pJ/bit x 256 bit, in the digits that are printed
    assert least <= COLUMN_PJ[path] <= most
    assert memory_pj(path, BankCounts(2, 3)).total_pj == pytest.approx(2000 * column_nj + 3 * 909)
    assert (ACT_PJ, MAC_PJ) == (909, 0.46)
