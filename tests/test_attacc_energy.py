"""AttAcc's energy: constants and sums typed from the authors' simulator."""

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.energy import attacc
from pimloom.energy.attacc import gpu_energy, softmax_energy, stack_energy, way

ORG = load_part("hbm3_attacc_5200").value.organization
COMPOSED = {"gpu": 28.72, "bank": 4.40, "bg": 12.48, "buffer": 26.32}  # pJ/B
COUNTS = {"MAC": 97_296, "SFM": 188, "MVGB": 12_032, "MVSB": 15_104, "WRGB": 1504}


@pytest.mark.parametrize("place", COMPOSED)
def test_energy_of_a_byte(place: str) -> None:
    assert way(place).of_bytes(1) == pytest.approx(COMPOSED[place], rel=1e-12)


def test_constants() -> None:
    each = attacc.ACTIVATE, attacc.CELL, attacc.TO_GROUP, attacc.TO_GLOBAL, attacc.TSV, attacc.INTERPOSER
    assert [one.pj for one in each] == [0.11, 0.44, 1.01, 1.23, 0.5, 0.3]
    per_byte = attacc.L1.of_bytes(1), attacc.L2.of_bytes(1)
    assert per_byte == pytest.approx((1.28, 2.4))
    assert (attacc.REGISTER_PJ_PER_BYTE, attacc.SRAM_PJ_PER_BYTE, attacc.MULTIPLY_ADD_PJ) == (0.0675, 0.0034, 0.32)


@pytest.mark.parametrize(("placement", "accesses"), [("bank", 64), ("bg", 16), ("buffer", 2)])
def test_energy_of_a_stack(placement: str, accesses: int) -> None:
    found = stack_energy(ORG, placement, COUNTS, 1000).pj
    moved = 32 * (12_032 + 15_104 + 1504)
    assert found["cells"] == pytest.approx(97_296 * 32 * accesses * COMPOSED[placement])
    assert found["interposer"] == pytest.approx(32 * 1504 * 8 * 0.3)
    wires = found["tsv"], found["to_global"], found["to_group"]
    assert wires == pytest.approx((moved * 4.0, moved * 9.84, moved * 8.08))
    assert found["multiply_add"] == pytest.approx(320)


def test_slips_of_the_simulator() -> None:
    """Wires cost an eighth; a MAC on the buffer die reads once, or twice if a table was there."""
    right, slipped = (stack_energy(ORG, "bank", COUNTS, 0, as_released=on).pj for on in (False, True))
    for wire in ("interposer", "tsv", "to_global", "to_group"):
        assert slipped[wire] * 8 == pytest.approx(right[wire])
    assert slipped["cells"] == right["cells"]
    fresh, known = (stack_energy(ORG, "buffer", COUNTS, 0, as_released=True, from_table=on).pj for on in (False, True))
    assert known["cells"] == 2 * fresh["cells"] == stack_energy(ORG, "buffer", COUNTS, 0).pj["cells"]


def test_energy_of_the_other_units() -> None:
    assert softmax_energy(1000, 100).pj == pytest.approx({"sram": 3.4, "multiply_add": 32})
    found = gpu_energy(10, 20, 30, 40, 50).pj
    wanted = {"dram": 287.2, "l2": 48, "l1": 38.4, "register": 2.7, "multiply_add": 16}
    assert found == pytest.approx(wanted)


def test_unknown_placements_are_refused() -> None:
    with pytest.raises(UserError, match="placement: expected one of bank, bg, buffer, gpu, got rank"):
        way("rank")
    with pytest.raises(UserError, match="placement: expected one of bank, bg, buffer, got gpu"):
        stack_energy(ORG, "gpu", COUNTS, 0)
