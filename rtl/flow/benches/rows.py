"""Rows of numbers in, rows out, a fixed number of clocks each.

given: `clocks` a row takes; each input port's rows, uint32[rows, words], word 0 lowest; `results`, names of outputs.
Left: each output just before a row's last falling edge, uint32[rows, words]; cycles; seconds. A top without a clock has
as much time to settle.
"""

import time
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import Timer
from cocotb.types import LogicArray

from pimloom.rtl.flow import exchange


@cocotb.test()
async def every_row(dut: Any) -> None:
    """Reset is not used: registers start as after one."""
    given = exchange.given()
    clocks, results = int(given.pop("clocks")), given.pop("results").tolist()
    inputs = [(getattr(dut, name), iter(rows.astype("<u4"))) for name, rows in given.items()]
    outputs = {name: (getattr(dut, name), bytearray()) for name in results}
    if hasattr(dut, "clk"):
        dut.rst.value = 0
        Clock(dut.clk, 2, unit="ns").start(start_high=False)
    rows, start = len(next(iter(given.values()))), time.perf_counter()
    for _ in range(rows):
        for port, words in inputs:
            port.value = bits(next(words), len(port))
        await Timer(2 * clocks, "ns")
        for port, data in outputs.values():
            data += int(str(port.value), 2).to_bytes(-len(port) // 32 * -4, "little")
    seconds = time.perf_counter() - start
    left = {name: np.frombuffer(data, "<u4").reshape(rows, -1) for name, (_, data) in outputs.items()}
    exchange.leave(**left, cycles=np.array(rows * clocks), seconds=np.array(seconds))


def bits(words: np.ndarray, width: int) -> LogicArray:
    """Words, the lowest first, as what a port takes."""
    return LogicArray(format(int.from_bytes(words.tobytes(), "little"), f"0{width}b"))
