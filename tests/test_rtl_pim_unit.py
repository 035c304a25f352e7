# amaranth: UnusedElaboratable=no
"""The MAC unit in gates against `pim_math`: the same commands in the same order, as close as they may come."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from amaranth.hdl import Cat, Mux, Value
from amaranth.sim import Simulator

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.cycle_sim import asic_math as asic
from pimloom.cycle_sim.pim_math import mac_column, read_result
from pimloom.rtl import bf16
from pimloom.rtl.float32 import is_nan, is_zero
from pimloom.rtl.flow.scenes.arithmetic import IDLE, LOAD, MAC, READ, mac_operands, mac_ports, random_commands
from pimloom.rtl.flow.scenes.scene import play, row_scene
from pimloom.rtl.flow.scenes.values import BF16
from pimloom.rtl.flow.verify import verify
from pimloom.rtl.pim_unit import PimUnit
from pimloom.rtl.verilog import to_verilog
from tests.simulators import needs
from tests.slow import slow

PART = load_part("gddr6_pim_gpt").value
UNIT: Any = PART.pim_unit
DRAIN_CK = 40  # until all results are out


def results(commands, weights, inputs, bias):
    """What each read gives, bfloat16[reads]."""
    acc, found = np.zeros((), np.float32), []
    for i, command in enumerate(commands):
        if command == MAC and weights.shape[1] == 16:
            acc = mac_column(acc, weights[i], inputs[i])
        elif command == MAC:
            products = asic.mul(*(asic.settle(x[i].astype(np.float32)) for x in (weights, inputs)))
            acc = asic.add(acc, asic.pairwise(products))
        elif command == READ:
            found.append(read_result(acc))
            acc = np.zeros_like(acc)
        elif command == LOAD:
            acc = asic.settle(bias[i].astype(np.float32))
    return np.array(found, BF16)


def random_scene(seed, n, gap, lanes):
    """commands, weights, inputs, bias: n commands, until all results are out."""
    rng = np.random.default_rng(seed)
    commands = np.append(random_commands(rng, n, gap), [IDLE] * DRAIN_CK)
    return commands, *mac_operands(rng, len(commands), lanes)


def careless(x: Value) -> Value:
    """`bf16.rounded` that does not look at the lowest bit of what it drops."""
    tail, kept = x[: bf16.DROPPED], x[bf16.DROPPED :]
    magnitude = (kept[:-1] + (tail[-1] & (kept[0] | tail[1:-1].any())))[: bf16.WIDTH - 1]
    return Mux(is_nan(x), bf16.NAN, Cat(Mux(is_zero(x), 0, magnitude), kept[-1]))


def test_rounding_that_drops_the_lowest_sticky_bit_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where a waveform is left

    def wrong() -> int:
        (found,) = verify("pim_unit", "gddr6_pim_gpt", simulator=needs("icarus"), commands=300)
        return found.mismatches

    assert wrong() == 0
    monkeypatch.setattr(bf16, "rounded", careless)
    assert wrong() > 0


def part_with(lanes, tccd):
    """PIM-GPT's part with another width and another distance of MACab [CK]."""
    part = load_part("gddr6_pim_gpt", {f"timing.{name}": f"{tccd} nCK" for name in ("tCCD_S", "tCCD_L")}).value
    return msgspec.structs.replace(part, pim_unit=msgspec.structs.replace(UNIT, lanes=lanes))


def distance(part):
    table = compile_table(part)
    return int(table.rules.gap[table.cmd("MACab")])


def compare(commands, latency, shown, expected):
    """shown: result and valid in each clock."""
    (result, valid), expected = shown, expected.view(np.uint16)
    done = np.flatnonzero(commands == READ) + latency
    assert (np.flatnonzero(valid) == done).all()
    wrong = np.flatnonzero(result[done] != expected)
    assert not len(wrong), [(int(i), hex(result[done[i]]), hex(expected[i])) for i in wrong[:5]]
    assert (result == np.repeat(np.append(0, expected), np.diff([0, *done, len(result)]))).all()  # it stays


def in_verilator(unit, scene):
    """result and valid in each clock."""
    given = row_scene(mac_ports(*scene), {"result": scene[0], "valid": scene[0]}, latency=1)
    left = play(to_verilog(unit, "pim_unit"), "pim_unit", given)
    # The bench looks behind the clock's edge: at what stands there in the next clock.
    return np.append(0, left["result"][:-1]), np.append(0, left["valid"][:-1])


def in_amaranth(unit, scene):
    inputs, seen = mac_ports(*scene), []

    async def bench(ctx):
        for row in zip(*(x.tolist() for x in inputs.values()), strict=True):
            for name, value in zip(inputs, row, strict=True):
                ctx.set(getattr(unit, name), value)
            seen.append((ctx.get(unit.result), ctx.get(unit.valid)))
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return np.array(seen).T


@pytest.mark.slow
def test_the_unit_of_pim_gpt_is_pim_math_bit_for_bit():
    gap, unit = distance(PART), PimUnit(PART)
    scene = commands, *_ = random_scene(1, 18_000, gap, UNIT.lanes)
    expected = results(*scene)
    neighbours = Counter(itertools.pairwise(commands.tolist()))
    pairs = [(a, b) for a in (MAC, READ, LOAD) for b in (MAC, READ, LOAD)]
    assert min(neighbours[pair] for pair in pairs if gap == 1 or pair != (MAC, MAC)) > 100
    assert (np.diff(np.flatnonzero(commands == MAC)) == gap).sum() > 1000
    for kind in (np.isnan, np.isposinf, np.isneginf, lambda x: x == 0, np.isfinite):
        assert kind(expected.astype(np.float32)).sum() > 30
    compare(commands, unit.latency, in_verilator(unit, scene), expected)


@pytest.mark.parametrize(("lanes", "tccd", "latency"), [(1, 1, 2), slow(4, 1, 4), (4, 2, 7), slow(2, 3, 5)])
def test_other_widths_and_distances(lanes, tccd, latency):
    part = part_with(lanes, tccd)
    unit, gap = PimUnit(part), distance(part)
    assert (unit.latency, gap) == (latency, tccd)
    scene = random_scene(tccd, 250, gap, lanes)
    compare(scene[0], latency, in_amaranth(unit, scene), results(*scene))


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (None, "GDDR6 PIM channel as PIM-GPT models it: has no PIM units"),
        (msgspec.structs.replace(UNIT, lanes=12), "a power of two of bfloat16 lanes, not 12 lanes of 16 bits"),
        (msgspec.structs.replace(UNIT, element_bits=8), "bfloat16 lanes, not 16 lanes of 8 bits"),
    ],
)
def test_parts_it_cannot_be_made_for_are_errors(unit, message):
    with pytest.raises(UserError, match=message):
        PimUnit(msgspec.structs.replace(PART, pim_unit=unit))
