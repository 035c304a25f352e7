"""Scenes of the blocks with plain ports: float32, bfloat16, the MAC unit and a timer, against their models."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from amaranth.lib.wiring import Component

from pimloom.arch.command import Role
from pimloom.arch.part import Part
from pimloom.arch.table import compile_table
from pimloom.cycle_sim import asic_math as asic
from pimloom.cycle_sim.pim_math import LANES, column_sum, read_result
from pimloom.rtl import bf16
from pimloom.rtl.flow.scenes.scene import Scene, row_scene
from pimloom.rtl.flow.scenes.values import BF16, PRODUCTS, SUMS, Exponents, near_each_other, pairs, small_operands
from pimloom.rtl.pim_unit import PimUnit
from pimloom.rtl.timer import Timer

IDLE, MAC, READ, LOAD = range(4)  # what a MAC unit does in a clock
Generator = np.random.Generator


def float32(words: np.ndarray) -> np.ndarray:
    """Settled float32 of its bits, or of those of bfloat16."""
    wide = words.astype(np.uint32) << bf16.WIDTH if words.dtype == np.uint16 else words
    return asic.settle(wide.view(np.float32))


# Scenes of n operations.


def _pair_scene(
    name: str, exponents: Sequence[Exponents], unit: Component, part: Part, rng: Generator, n: int
) -> Scene:
    a, b = pairs(rng, n, exponents)
    if len(unit.a) == bf16.WIDTH:
        a, b = ((x >> bf16.DROPPED).astype(np.uint16) for x in (a, b))
    expected = getattr(asic, name)(float32(a), float32(b)).view(np.uint32)
    return row_scene({"a": a, "b": b}, {"o": expected}, 0, lambda port, i: f"{name}({a[i]:#x}, {b[i]:#x})")


def _tree_scene(tree: bf16.Tree, part: Part, rng: Generator, n: int) -> Scene:
    x = near_each_other(rng, n, tree.width)
    expected = asic.pairwise(float32(x)).view(np.uint32)
    return row_scene({"x": x}, {"o": expected}, tree.latency, lambda port, i: f"sum {i}, of {tree.width} numbers,")


def _timer_scene(timer: Timer, part: Part, rng: Generator, n: int) -> Scene:
    """n clocks, in turns with many armings and with few."""
    window, wait = timer.window, timer.wait.value
    often = np.array([1, 0.5, window / wait])[np.arange(n) // (4 * wait) % 3]
    arm = (rng.random(n) < often).astype(np.uint32)
    return row_scene({"arm": arm}, {"busy": busy(arm.tolist(), window, wait)}, 1)


def _unit_scene(unit: PimUnit, part: Part, rng: Generator, n: int) -> Scene:
    """n commands, as close as they may come; the result register and its flag in every clock."""
    table = compile_table(part)
    commands = random_commands(rng, n, int(table.rules.gap[table.role(Role.MULTIPLY)]))
    operands = near_ties(rng, commands, *mac_operands(rng, len(commands), unit.lanes))
    valid = (commands == READ).astype(np.uint32)
    shown = np.append(0, mac_results(commands, *operands).view(np.uint16))[np.cumsum(valid)]
    return row_scene(mac_ports(commands, *operands), {"valid": valid, "result": shown}, unit.latency, operations=n)


SCENES: dict[str, Callable[..., Scene]] = {  # of the block, the part, a generator and how many operations
    "timer": _timer_scene,
    "float32_add": partial(_pair_scene, "add", SUMS),
    "float32_mul": partial(_pair_scene, "mul", PRODUCTS),
    "bf16_mul": partial(_pair_scene, "mul", PRODUCTS),
    "bf16_tree": _tree_scene,
    "pim_unit": _unit_scene,
}


# The timer's rule, and what a MAC unit is given and gives.


def busy(arm: list[int], window: int, wait: int) -> np.ndarray:
    """After each clock, bit i: the (i+1)-th latest arming is less than `wait` clocks ago in the next one."""
    found, armings = [], list[int]()
    for clock, armed in enumerate(arm):
        armings += [clock] * armed
        latest = armings[-window:][::-1]
        found.append(sum(1 << i for i, at in enumerate(latest) if clock + 1 - at < wait))
    return np.array(found)


def random_commands(rng: Generator, n: int, gap: int) -> np.ndarray:
    """A command a clock, n of them not idle; macs `gap` apart or more, often just so, with the others in between."""
    commands, since = list[int](), gap
    while n:
        chances = [0.1, 0.5, 0.25, 0.15] if since >= gap else [0.5, 0, 0.3, 0.2]
        command = int(rng.choice(4, p=chances))
        since = 1 if command == MAC else since + 1
        commands.append(command)
        n -= command != IDLE
    return np.array(commands)


def mac_operands(rng: Generator, n: int, lanes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights and inputs, bfloat16[n, lanes], and bias, bfloat16[n]."""
    weights, inputs, bias = (small_operands(rng, n, width) for width in (lanes, lanes, 1))
    return weights, inputs, bias[:, 0]


def near_ties(
    rng: Generator, commands: np.ndarray, weights: np.ndarray, inputs: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The operands with those of each load, MAC and read that follow each other replaced: the sum is in the middle of
    two bfloat16, or the last bit of a float32 beside it."""
    weights, inputs, bias, busy = weights.copy(), inputs.copy(), bias.copy(), np.flatnonzero(commands != IDLE)
    for load, mac, read in zip(busy, busy[1:], busy[2:], strict=False):
        if (commands[load], commands[mac], commands[read]) == (LOAD, MAC, READ) and weights.shape[1] > 1:
            scale = float(rng.choice((-1, 1)) * 2.0 ** rng.integers(-60, 60))
            bias[load] = scale * (1 + rng.integers(0, 128) / 128)  # in units of its last place, 2**-7
            weights[mac], inputs[mac] = 0, scale
            weights[mac, :2] = 2.0**-8, rng.integers(-1, 2) * 2.0**-23
    return weights, inputs, bias


def mac_ports(commands: np.ndarray, weights: np.ndarray, inputs: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
    """What stands at the unit's input ports in each clock."""
    words = {"weights": weights.view(np.uint16), "inputs": inputs.view(np.uint16), "bias": bias.view(np.uint16)}
    return words | {"mac": commands == MAC, "read": commands == READ, "load": commands == LOAD}


def mac_results(commands: np.ndarray, weights: np.ndarray, inputs: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Expected results of the reads among the commands, bfloat16[reads]."""
    columns, start = _columns(weights, inputs), float32(bias.view(np.uint16))
    acc, found = np.zeros((), np.float32), []
    for i, command in enumerate(commands.tolist()):
        if command == MAC:
            acc = asic.add(acc, columns[i])
        elif command == LOAD:
            acc = start[i]
        elif command == READ:
            found.append(read_result(acc))
            acc = np.zeros_like(acc)
    return np.array(found, BF16)


def _columns(weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """`pim_math.column_sum`, which knows but one width."""
    if weights.shape[1] == LANES:
        return column_sum(weights, inputs)
    return asic.pairwise(asic.mul(*(float32(x.view(np.uint16)) for x in (weights, inputs))))
