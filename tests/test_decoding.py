"""Formulas of decoding transforms: the stored tables, sums over all outcomes, draws, events and brute force."""

import csv
from itertools import product
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.workload.decoding import chain, density, mirror, order_statistics, precision, pruning, selection, tree
from pimloom.workload.decoding.draws import uniform
from pimloom.workload.decoding.formats import FORMATS, Rates, crossing_rows, format_of, gemm_s
from tests.reference_data import needed

TIGHT = 1e-9


def lengths_of(text: str) -> order_statistics.Lengths:
    """Of a distribution as the tables name it: `exponential(1)`, `lognormal(mu=0,sigma=0.5)`."""
    name, _, numbers = text.rstrip(")").partition("(")
    given = [float(number.rpartition("=")[2]) for number in numbers.split(",")]
    return getattr(order_statistics, name)(*given)


def table(name: str) -> list[dict[str, str]]:
    with Path(needed(f"serving/decoding/{name}")).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.reference
def test_the_table_of_chains():
    for row in table("chain.csv"):
        reach = chain.reached([float(row["alpha"])] * int(row["gamma"]))
        assert chain.tokens_per_step(reach) == pytest.approx(float(row["tokens_per_step"]), rel=TIGHT)
        assert chain.tokens_spread(reach) == pytest.approx(float(row["std_tokens_per_step"]), rel=TIGHT)
        alpha, gamma = float(row["alpha"]), int(row["gamma"])
        by_formula = (1 - alpha ** (gamma + 1)) / (1 - alpha) if alpha < 1 else gamma + 1
        assert chain.tokens_per_step(reach) == pytest.approx(by_formula)


@pytest.mark.reference
def test_the_table_of_trees():
    nodes = table("tree_nodes.csv")
    for row in table("tree.csv"):
        mine = [tuple(map(int, n["path_of_ranks"].split())) for n in nodes if n["tree"] == row["tree"]]
        q = tree.accuracies([float(one) for one in row["top1_of_heads"].split()], float(row["decay"]))
        tree.check(mine, q)
        assert (len(set(mine)), max(map(len, mine))) == (int(row["distinct_nodes"]), int(row["depth"]))
        assert tree.tokens_per_step(mine, q) == pytest.approx(float(row["tokens_per_step"]), rel=TIGHT)
        assert tree.tokens_per_step(mine, q) == pytest.approx(float(row["monte_carlo_40000"]), abs=0.03)
        assert sum(tree.reached(mine, q)) == pytest.approx(float(row["tokens_per_step"]), rel=TIGHT)
        assert tree.tokens_per_step(tree.likeliest(q, len(set(mine))), q) >= tree.tokens_per_step(mine, q) - TIGHT


@pytest.mark.reference
def test_the_table_of_order_statistics():
    for row in table("order_statistics.csv"):
        lengths, rank, of = lengths_of(row["distribution"]), int(row["M"]), int(row["N"])
        relative = 1e-8 if row["distribution"].startswith("lognormal") else TIGHT
        mean = order_statistics.mean_of_rank(lengths, rank, of)
        assert mean == pytest.approx(float(row["mean_of_Mth_smallest"]), rel=relative)
        most = order_statistics.mean_of_rank(lengths, of, of)
        assert most == pytest.approx(float(row["mean_of_largest"]), rel=relative)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_a_chain_is_the_sum_over_all_outcomes(alphas):
    mean = square = 0.0
    for right in product([True, False], repeat=len(alphas)):
        chance = prod(a if ok else 1 - a for a, ok in zip(alphas, right, strict=True))
        made = [*right, False].index(False) + 1
        mean, square = mean + chance * made, square + chance * made**2
    reach = chain.reached(alphas)
    assert chain.tokens_per_step(reach) == pytest.approx(mean, rel=TIGHT)
    assert chain.tokens_spread(reach) ** 2 == pytest.approx(square - mean**2, abs=1e-9)


def test_requests_that_differ_accept_as_the_beta_distribution_says():
    reach = chain.reached_beta(0.7, 0.2, 4)
    alphas = np.random.default_rng(0).beta(*chain.beta(0.7, 0.2), 400_000)
    np.testing.assert_allclose(reach, [np.mean(alphas**k) for k in range(5)], atol=2e-3)
    assert chain.tokens_per_step(reach) > chain.tokens_per_step(chain.reached([0.7] * 4))
    with pytest.raises(UserError, match=r"a spread of 0.6 about an acceptance of 0.5: expected one between 0 and 0.5"):
        chain.beta(0.5, 0.6)


def test_draws_are_uniform_and_of_the_request_alone():
    drawn = np.array([uniform(3, r, t) for r in range(100) for t in range(100)])
    assert abs(drawn.mean() - 0.5) < 0.01 and abs(drawn.var() - 1 / 12) < 0.002
    assert len(set(drawn.tolist())) == len(drawn)


def test_a_tree_is_the_sum_over_all_guesses():
    q = tree.accuracies([0.6, 0.4, 0.3], 0.3, 3)
    nodes = tree.likeliest(q, 20)
    made = 0.0
    for right in product(range(4), repeat=3):  # the rank that is right of each head, 3: none
        chance = prod(q[i][r] if r < 3 else 1 - sum(q[i]) for i, r in enumerate(right))
        made += chance * (1 + max((len(n) for n in nodes if n == right[: len(n)]), default=0))
    assert tree.tokens_per_step(nodes, q) == pytest.approx(made, rel=TIGHT)
    with pytest.raises(UserError, match=r"node \(0, 1\) of a tree: \(0,\), which it stands behind, is no node"):
        tree.check([(1,), (0, 1)], q)


def test_a_tree_of_one_path_is_a_chain():
    path, alphas = [(0,), (0, 0), (0, 0, 0)], [0.8, 0.6, 0.3]
    reach = chain.reached(alphas)
    assert tree.tokens_per_step(path, [[alpha] for alpha in alphas]) == pytest.approx(chain.tokens_per_step(reach))
    assert tree.reached(path, [[alpha] for alpha in alphas]) == pytest.approx(reach)
    assert tree.pairs(path) == 1 + 2 + 3 + 4
    assert 5 * tree.head_weights(4096, 32_000) == pytest.approx(740e6, rel=0.01)


def test_rows_of_a_tree_see_their_ancestors_only():
    nodes = tree.likeliest(tree.accuracies([0.6, 0.4, 0.3], 0.3, 3), 20)
    seen = [[other for other in [(), *nodes] if row[: len(other)] == other] for row in [(), *nodes]]
    assert tree.pairs(nodes) == sum(map(len, seen))


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.tuples(*[st.integers(0, 50)] * 5))
def test_two_machines_event_by_event_take_what_the_formula_says(hits, times):
    of = mirror.Times(*map(float, times))
    share = sum(hits) / len(hits)
    expected = len(hits) * mirror.step_time(of, share)
    assert mirror.simulated(of, hits) == pytest.approx(expected, rel=TIGHT, abs=TIGHT)


@pytest.mark.parametrize(("rank", "of"), [(1, 1), (2, 4), (4, 8), (3, 16)])
def test_order_statistics_beside_closed_forms_and_draws(rank, of):
    exact = order_statistics.exponential_mean(rank, of, 3.0)
    assert order_statistics.mean_of_rank(order_statistics.exponential(3.0), rank, of) == pytest.approx(exact, rel=1e-9)
    assert order_statistics.mean_of_rank(order_statistics.uniform(2, 5), rank, of) == pytest.approx(
        2 + 3 * rank / (of + 1), rel=1e-9
    )
    drawn = np.sort(np.random.default_rng(2).exponential(1.0, (200_000, of)), axis=1)
    tokens = np.minimum(drawn, drawn[:, rank - 1 : rank]).sum(1).mean()
    assert order_statistics.token_steps(order_statistics.exponential(), rank, of) == pytest.approx(tokens, rel=0.01)
    with pytest.raises(UserError, match="the 3-th of 2 branches: expected 1 to 2"):
        order_statistics.mean_of_rank(order_statistics.uniform(), 3, 2)


def test_pruning_gives_up_what_is_worth_little_and_stops_when_enough_have_ended():
    lengths, looks = [4, 6, 9, 9], np.array([[0.9, 0.9], [0.5, 0.95], [0.1, 0.1], [0.05, 0.2]])
    rules = pruning.Rules(stop=2, below=0.3, most=1, every=3)
    found = pruning.pruned(lengths, looks, rules)
    assert found == pruning.Pruned(6, 4 + 6 + 6 + 3, (0, 1), (2,), (4, 6, 3, 6))  # at 3, at 6
    without = pruning.pruned(lengths, looks, rules._replace(most=0))
    assert without.tokens == 4 + 6 + 6 + 6 and not without.given_up
    late = pruning.pruned([3, 9, 9], np.array([[0.5] * 4, [0.6] * 4, [0.4] * 4]), pruning.Rules(2, 0.0, 0, 3))
    assert late == pruning.Pruned(9, 3 + 9 + 3, (0, 1), (2,), (3, 9, 3))  # below the first that ended, without a limit
    assert pruning.walks(3, 5, 0.5, 0.1, 1).tolist() == pruning.walks(3, 5, 0.5, 0.1, 1).tolist()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_leaves_of_a_search_beside_all_choices(seed):
    random, leaves = Random(seed), list[selection.Leaf]()
    for _ in range(random.randint(1, 7)):
        above = tuple(sorted(random.sample(range(5), random.randint(1, 3))))
        leaves.append(selection.Leaf(random.random(), above, random.randrange(3)))
    choices = [[i for i in range(len(leaves)) if number >> i & 1] for number in range(1 << len(leaves))]
    best = max(selection.value(leaves, chosen) for chosen in choices)
    found = selection.select(leaves)
    assert selection.value(leaves, found) == pytest.approx(best, abs=1e-6)
    assert selection.kept_tokens(leaves, found, 1, 10) <= selection.kept_tokens(leaves, range(len(leaves)), 1, 10)


def test_four_bits_and_their_scales():
    a10 = Rates(125e12, 600e9)
    four, wide = FORMATS["int4"], format_of("int8")._replace(bits=16)
    assert float(four.mean_bits) == 4.125 and round(crossing_rows(four.mean_bits, a10)) == 54
    gains = [gemm_s(rows, 8192, 8192, wide, a10) / gemm_s(rows, 8192, 8192, four, a10) for rows in (1, 16, 64, 256)]
    assert gains[0] == pytest.approx(16 / 4.125, rel=2e-3) and gains[1] == pytest.approx(3.87, rel=0.03)
    assert gains == sorted(gains, reverse=True) and gains[-1] == 1.0
    assert gemm_s(1, 8192, 8192, four, a10._replace(dequantised=1e11)) == 8192 * 8192 / 1e11
    for bad in ("int3", "int4:0", "int4:x", "int4:"):
        with pytest.raises(UserError, match=f"--weights {bad}: expected one of int4, int8, or int4:64"):
            format_of(bad)


def machines(random: Random) -> list[precision.Machine]:
    found = []
    for factor in (1.0, 2.0):
        times = [[factor * t for t in sorted(random.randint(1, 9) for _ in range(3))] for _ in range(3)]
        losses = [sorted((random.randint(0, 9) for _ in range(3)), reverse=True) for _ in range(3)]
        choices = {
            f"op {i}": [precision.Choice(t, 1.0 + k, loss) for k, (t, loss) in enumerate(zip(*of, strict=True))]
            for i, of in enumerate(zip(times, losses, strict=True))
        }
        found.append(precision.Machine(choices, 3.0 + random.randint(0, 6)))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_wider_formats_slow_no_device_down(seed):
    made = machines(Random(seed))
    narrow = [dict.fromkeys(machine.choices, 0) for machine in made]
    found = precision.allocate(made)
    assert precision.step_time(made, found) == precision.step_time(made, narrow)
    assert precision.loss(made, found) <= precision.loss(made, narrow)
    least = 0.0
    for machine in made:  # each device by itself: the best there is
        fit = [
            [machine.choices[name][at] for name, at in zip(machine.choices, chosen, strict=True)]
            for chosen in product(range(3), repeat=3)
        ]
        limit = precision.step_time(made, narrow)
        fit = [of for of in fit if sum(c.time for c in of) <= limit and sum(c.memory for c in of) <= machine.memory]
        least += min(sum(c.loss for c in of) for of in fit)
    assert least <= precision.loss(made, found)
    for machine, chosen in zip(made, found, strict=True):
        assert sum(machine.choices[name][at].memory for name, at in chosen.items()) <= machine.memory
    with pytest.raises(UserError, match="device 0: its operators do not fit in their narrowest formats"):
        precision.allocate([made[0]._replace(memory=1.0)])


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=7), st.integers(1, 3))
def test_heads_the_longest_first_beside_the_best(loads, devices):
    found = density.slowest(loads, density.longest_first(loads, devices))
    best = min(density.slowest(loads, where) for where in product(range(devices), repeat=len(loads)))
    assert best - TIGHT <= found <= best * (4 / 3 - 1 / (3 * devices)) + TIGHT  # Graham 1969


def test_how_sparse_attention_must_be():
    assert density.needed(3.36, 0.11) == pytest.approx(0.188, abs=5e-4)
    assert density.of_part(3.02, 0.95) == pytest.approx(3.38, abs=5e-3)
    with pytest.raises(UserError, match="7 times as fast by a part of 0.8"):
        density.of_part(7, 0.8)
    drawn = np.random.default_rng(0).random((20000, 16)) < 0.1
    assert density.rows_kept(0.1, 64, 1024) == pytest.approx(drawn.any(1).mean(), abs=0.01)
    assert density.density_of("0.5,phase=all") == density.Density(0.5, 0.0, False)
    for bad in ("0", "1.5", "x", "0.5,other=1", "0.5,selection", "0.5,phase=decode", "0.5,selection=2"):
        with pytest.raises(UserError, match=f"--density {bad}: expected"):
            density.density_of(bad)


def test_the_beta_distribution_of_a_fair_coin():
    assert chain.reached_beta(0.5, (1 / 12) ** 0.5, 3) == pytest.approx([1 / (k + 1) for k in range(4)])  # uniform
