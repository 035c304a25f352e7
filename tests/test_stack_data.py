"""Numbers on AttAcc's stacks and Duplex' logic dies: against plain loops bit for bit, and against float64."""

import numpy as np
import pytest

from pimloom.arch.duplex import load_duplex
from pimloom.arch.system import load_part
from pimloom.cycle_sim.asic_math import softmax
from pimloom.mappers.attacc import groups
from pimloom.mappers.attacc.layout import Placement
from pimloom.mappers.attacc.stream import BANK, MAC, MVGB, OP, ROW, SFM, WRGB
from pimloom.systems.devices.attacc import data
from pimloom.systems.devices.attacc.data import Accumulator, Group, attend
from pimloom.systems.devices.duplex_data import BANKS, GemmModule, multiply, place

FP16 = np.float16
ORG = load_part("hbm3_attacc_5200").value.organization
ULP = 2.0**-11  # half of the last place of a number near 1
PLACEMENTS = tuple(Placement)
rng = np.random.default_rng(9)


def draw(tokens: int, width: int, sharers: int) -> Group:
    numbers = [rng.normal(size=shape) for shape in ((tokens, width), (tokens, width), (sharers, width))]
    keys, values, queries = (n.astype(FP16) for n in (*numbers[:2], numbers[2] / width**0.5))
    return Group(keys, values, queries)


def float64(group: Group) -> np.ndarray:
    scores = group.queries.astype(float) @ group.keys.astype(float).T
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ group.values.astype(float)


@pytest.mark.parametrize("width", [128, 80, 17])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_heads_of_a_channel_attend(placement, width) -> None:
    """Three groups, of different lengths, two query heads each: four pairs. Measured: 0.7 and 4.3 of ULP."""
    drawn = [draw(tokens, width, 2) for tokens in (290, 70, 33)]
    bounds: dict[Accumulator, float] = {"float32": 1.0, "float16": 6.0}
    for accumulator, most in bounds.items():
        found = attend(ORG, placement, drawn, accumulator)
        for group, out in zip(drawn, found, strict=True):
            right = float64(group)
            error = np.linalg.norm(out - right) / np.linalg.norm(right)
            assert error < most * ULP, (accumulator, error / ULP)


def tree(lanes: list) -> np.float16:
    while len(lanes) > 1:
        lanes = [lanes[i] + lanes[i + 1] for i in range(0, len(lanes), 2)]
    return lanes[0]


def test_a_head_is_the_loop_bit_for_bit() -> None:
    """At banks: a token lies in unit t mod 16, a quarter of its width in each bank."""
    group = draw(50, 128, 1)
    k, v, q = group.keys, group.values, group.queries[0]
    scores = np.zeros(50, np.float32)
    for t in range(50):
        for bank in range(4):
            total = FP16(0)
            for first in (bank * 32, bank * 32 + 16):
                total = total + tree([k[t, d] * q[d] for d in range(first, first + 16)])
            scores[t] = scores[t] + np.float32(total)
    shares = softmax(scores).astype(FP16)
    out = np.zeros(128, np.float32)
    for unit in range(16):
        for d in range(128):
            total = FP16(0)
            for t in range(unit, 50, 16):
                total = total + v[t, d] * shares[t]
            out[d] = out[d] + np.float32(total)
    found = attend(ORG, Placement.BANK, [group])
    assert found[0, 0].tolist() == out.astype(FP16).tolist()


@pytest.mark.parametrize(("kind", "said"), [
    (WRGB, "scores before their query"), (SFM, "probabilities before their softmax"),
    (MVGB, "a context before its probabilities"), (MAC, "a move before its MACs"),
])  # fmt: skip
def test_a_request_that_comes_too_late_is_found(monkeypatch, kind, said) -> None:
    whole = groups.requests

    def late(*asked):
        found = whole(*asked)
        return np.concatenate([found[found[:, OP] != kind], found[found[:, OP] == kind]])

    monkeypatch.setattr(data, "requests", late)
    with pytest.raises(ValueError, match=said):
        attend(ORG, Placement.BANK, [draw(300, 64, 2)])


@pytest.mark.parametrize(("column", "said"), [(BANK, "names another bank or row"), (ROW, "names another bank or row")])
def test_a_mac_of_another_place_is_found(monkeypatch, column, said) -> None:
    whole = groups.requests

    def elsewhere(*asked):
        found = whole(*asked).copy()
        found[np.flatnonzero(found[:, OP] == MAC)[-1], column] += 1
        return found

    monkeypatch.setattr(data, "requests", elsewhere)
    with pytest.raises(ValueError, match=said):
        attend(ORG, Placement.BANK_GROUP, [draw(40, 64, 1)])


# Duplex

DUPLEX = load_duplex()


@pytest.mark.parametrize(("accumulator", "most"), [("float32", 0.7), ("float16", 2.5)])
def test_a_product_on_all_logic_dies(accumulator, most) -> None:
    """Rows that are read in part, pseudo channels that have less. Measured: 0.4 and 1.5 of ULP."""
    x, w = rng.normal(size=(5, 200)).astype(FP16), (rng.normal(size=(200, 1700)) / 14).astype(FP16)
    found, right = multiply(DUPLEX, x, w, accumulator), x.astype(float) @ w.astype(float)
    assert found.shape == (5, 1700)
    assert np.linalg.norm(found - right) / np.linalg.norm(right) < most * ULP


def test_an_output_is_the_loop_bit_for_bit() -> None:
    x, w = rng.normal(size=(3, 70)).astype(FP16), rng.normal(size=(70, 1300)).astype(FP16)
    found = multiply(DUPLEX, x, w)
    for token, out in ((0, 0), (1, 777), (2, 1299)):
        total, padded = FP16(0), np.zeros((2, 80), FP16)
        padded[0, :70], padded[1, :70] = x[token], w[:, out]
        for first in range(0, 80, 16):
            total = total + tree([padded[0, i] * padded[1, i] for i in range(first, first + 16)])
        assert found[token, out] == total


def test_every_weight_has_a_place_of_its_own() -> None:
    matrix = np.arange(1, 40 * 21 + 1, dtype=FP16).reshape(40, 21)
    cells = place(matrix, 4)
    assert sorted(cells[cells != 0].tolist()) == matrix.reshape(-1).tolist() and cells.shape[1:] == (4, BANKS, 16)


def test_results_before_the_last_access_are_refused() -> None:
    module = GemmModule(np.ones((2, 32), FP16), 8)
    module.take(np.ones((BANKS, 16), FP16))
    with pytest.raises(ValueError, match="1 accesses: expected 2"):
        module.results()
