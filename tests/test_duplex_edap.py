"""Figure 8 of the Duplex paper: which units have the least energy x delay x area, at how many operations a byte."""

import pytest

from pimloom.arch.duplex import load_duplex
from pimloom.reports.duplex.edap import OP_PER_BYTE, area_mm2, figure, normalised
from pimloom.systems.devices.duplex.memory import BANK, BANK_GROUP, LOGIC

PAPER = {  # printed labels, each column over its worst
    BANK: (0.08, 0.16, 0.35, 0.81, 1.00, 1.00),
    BANK_GROUP: (1.00, 1.00, 1.00, 1.00, 0.96, 0.67),
    LOGIC: (0.66, 0.66, 0.65, 0.65, 0.61, 0.40),
}


def test_order_of_the_units_is_the_published_one() -> None:
    found = normalised(list(figure(load_duplex())))
    for ops in OP_PER_BYTE:
        best = min((BANK, BANK_GROUP, LOGIC), key=lambda units: found[units, ops])
        assert best == (BANK if ops <= 4 else LOGIC)
        assert found[LOGIC, ops] < found[BANK_GROUP, ops]


def test_values_are_what_they_are() -> None:
    """Reported, no gate: the paper's area of units on DRAM dies is not printed."""
    found = normalised(list(figure(load_duplex())))
    near = [abs(found[units, ops] - PAPER[units][i]) <= 0.15 for units in PAPER for i, ops in enumerate(OP_PER_BYTE)]
    assert sum(near) >= 6


def test_products_are_those_of_plain_arithmetic() -> None:
    device, mb = load_duplex(), 2 * 16384 * 4096
    for at in figure(device, (2, 16)):
        pj, times, ratio, area = {
            BANK: (187, 16, 1, 3.02 * 10 / 2 + 3.90),
            BANK_GROUP: (686, 4, 8, 3.02 * 10 + 3.90),
            LOGIC: (464, 4, 8, 17.81),
        }[at.units]
        assert at.energy_j == pytest.approx((mb / 32 * pj + mb / 1024 * 909 + 0.23 * mb * at.op_per_byte) * 1e-12)
        assert at.time_s == pytest.approx(mb / 3.328e12 / times * max(1, at.op_per_byte / ratio), rel=1e-3)
        assert at.area_mm2 == area_mm2(device, at.units) == pytest.approx(area, rel=1e-3)
