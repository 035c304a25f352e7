"""Requests for a small PIM channel of every kind of mix."""

from pimloom.arch.pim_channel import PimChannel
from pimloom.rtl.flow.npu_pim.traffic import Traffic, draw_traffic


def mixed(spec: PimChannel, number: int, clocks: int) -> Traffic:
    """Many reads and writes or few; PIM alone, seldom, or not at all. clocks: for how long, about."""
    accesses = (clocks // 12, clocks // 4, clocks // 40)[number % 3]
    return draw_traffic(spec, number, accesses, (1, 0, 3, 8, 25)[number % 5] * clocks // 1500)
