"""Which experts go to the xPU: cases worked out by hand, and random ones against brute force in plain Python."""

from itertools import product
from random import Random

import pytest

from pimloom.arch.error import UserError
from pimloom.mappers.experts import (
    alone,
    busiest_to_xpu,
    contiguous,
    dealt_round,
    idlest_to_pim,
    optimum,
    read_units,
)

OB_X = 989.4e12 / (0.75 * 3.352e12)
CASES = [  # tokens; S: experts moved and time; the paper's rule: experts kept and time; the least time
    ((4, 4), ((), 0.5), ((), 0.5), 0.5),
    ((32, 32), ((0,), 1.0), ((1,), 1.0), 1.0),
    ((30, 6), ((), 0.953125), ((), 0.953125), 0.953125),
    ((16, 16, 16, 16), ((0,), 1.125), ((3,), 1.125), 1.125),
    ((60, 1, 1, 2), ((0,), 1.0), ((0,), 1.0), 1.0),
    ((4,) * 8, ((), 2.0), ((7,), 1.75), 1.75),
    ((40, 2, 1, 1, 8, 3, 2, 7), ((0, 1), 2.0), ((0,), 1.75), 1.75),
]


def times(tokens: tuple[int, ...]) -> tuple[list[float], list[float]]:
    assert f"{OB_X:.1f}" == "393.6"
    return [read_units(n, OB_X) for n in tokens], [read_units(n, 8, 4, 0.75) for n in tokens]


@pytest.mark.parametrize(("tokens", "moved", "kept", "least"), CASES)
def test_routers_find_what_is_worked_out(
    tokens: tuple[int, ...], moved: tuple[tuple[int, ...], float], kept: tuple[tuple[int, ...], float], least: float
) -> None:
    xpu, pim = times(tokens)
    assert busiest_to_xpu(tokens, xpu, pim, contiguous(len(tokens))) == moved
    assert idlest_to_pim(tokens, xpu, pim, alone(len(tokens))) == kept
    assert optimum(xpu, pim, alone(len(tokens))).time == least


def brute_force(xpu: list[float], pim: list[float], groups: tuple[tuple[int, ...], ...]) -> float:
    least = float("inf")
    for sides in product((False, True), repeat=len(groups)):
        sums = [0.0, 0.0]
        for on_xpu, group in zip(sides, groups, strict=True):
            for i in group:
                sums[not on_xpu] += xpu[i] if on_xpu else pim[i]
        least = min(least, max(sums))
    return least


@pytest.mark.parametrize("grouped", [False, True])
def test_optimum_is_that_of_brute_force_and_no_rule_beats_it(grouped: bool) -> None:
    random, met = Random("experts"), 0
    for _ in range(300):
        n = random.choice((1, 2, 3, 4, 8, 12)) if grouped else random.randint(1, 8)
        tokens = [random.choice((0, 1, 3, 8, 30, 100, 500)) for _ in range(n)]
        xpu, pim = times(tuple(tokens))
        if random.random() < 0.5:  # times that do not grow with the tokens
            xpu, pim = ([random.uniform(0, 4) for _ in tokens] for _ in range(2))
        groups = random.choice((contiguous(n), dealt_round(n))) if grouped else alone(n)
        assert sorted(i for group in groups for i in group) == list(range(n))
        best = optimum(xpu, pim, groups)
        assert best.time == pytest.approx(brute_force(xpu, pim, groups))
        for found in (best, busiest_to_xpu(tokens, xpu, pim, groups), idlest_to_pim(tokens, xpu, pim, groups)):
            on = sum(xpu[i] for i in found.xpu), sum(t for i, t in enumerate(pim) if i not in found.xpu)
            assert max(on) == pytest.approx(found.time) and found.time >= best.time - 1e-9
            assert all(set(group) <= set(found.xpu) or not set(group) & set(found.xpu) for group in groups)
            met += found.time > best.time + 1e-9
    assert met > 10  # the rules are greedy


def test_the_least_of_sixteen_experts_is_found() -> None:
    tokens = tuple(range(16))
    xpu, pim = times(tokens)
    assert optimum(xpu, pim, alone(16)).time <= idlest_to_pim(tokens, xpu, pim, alone(16)).time
    with pytest.raises(UserError, match="17 groups of experts"):
        optimum(xpu * 2, pim * 2, alone(17))
    with pytest.raises(UserError, match="expected a multiple of its 4 memory spaces"):
        contiguous(6)
    assert optimum([], [], ()).time == 0


def test_sides_that_hinder_one_another_are_split_another_way() -> None:
    """Where both sides take their sum, nothing is gained by working at once."""
    tokens = (60, 1, 1, 2)
    xpu, pim = times(tokens)

    def in_turn(on_xpu: float, on_pim: float) -> float:
        return on_xpu + on_pim

    assert optimum(xpu, pim, alone(4), in_turn) == ((0,), 1.75) == idlest_to_pim(tokens, xpu, pim, alone(4), in_turn)
    assert busiest_to_xpu(tokens, xpu, pim, alone(4), in_turn) == ((0,), 1.75)
    assert optimum(*times((4,) * 8), alone(8), in_turn) == ((), 2.0) != optimum(*times((4,) * 8), alone(8))
