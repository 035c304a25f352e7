"""Formulas of speculation and of branches against tables of exact sums, and against draws."""

import csv
import re
from itertools import groupby
from pathlib import Path
from random import Random

import pytest

from pimloom.workload.decoding import chain, order_statistics, tree
from tests.reference_data import needed

pytestmark = pytest.mark.reference


def table(name: str) -> list[dict[str, str]]:
    with (needed("serving/decoding") / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_chains():
    for row in table("chain.csv"):
        alpha = [float(row["alpha"])] * int(row["gamma"])
        assert chain.tokens_per_step(alpha) == pytest.approx(float(row["tokens_per_step"]), abs=1e-9)
        assert chain.tokens_per_step_std(alpha) == pytest.approx(float(row["std_tokens_per_step"]), abs=1e-9)
        a, gamma = alpha[0], len(alpha)
        assert chain.tokens_per_step(alpha) == pytest.approx((1 - a ** (gamma + 1)) / (1 - a))


def test_draws_of_a_chain_are_as_many_as_the_formula_says():
    random, alpha = Random(1), [0.9, 0.7, 0.5]
    drawn = [chain.accepted(random, alpha) for _ in range(40_000)]
    assert 1 + sum(drawn) / len(drawn) == pytest.approx(chain.tokens_per_step(alpha), abs=0.03)
    for k, share in enumerate(chain.accepted_shares(alpha)):
        assert drawn.count(k) / len(drawn) == pytest.approx(share, abs=0.01)


def test_trees():
    nodes = {
        name: [tuple(map(int, row["path_of_ranks"].split())) for row in some]
        for name, some in groupby(table("tree_nodes.csv"), lambda row: row["tree"])
    }
    for row in table("tree.csv"):
        mine = nodes[row["tree"]]
        heads = [tree.rank_shares(float(top), float(row["decay"]), 10) for top in row["top1_of_heads"].split()]
        assert tree.tokens_per_step(mine, heads) == pytest.approx(float(row["tokens_per_step"]), abs=1e-9)
        assert tree.rows(mine) == int(row["distinct_nodes"]) + 1
        assert max(map(len, mine)) == int(row["depth"])
        assert tree.tokens_per_step(mine, heads) == pytest.approx(float(row["monte_carlo_40000"]), abs=0.03)


def test_a_tree_of_one_path_is_a_chain():
    heads = [[0.8], [0.6], [0.3]]
    path = [(0,), (0, 0), (0, 0, 0)]
    assert tree.tokens_per_step(path, heads) == pytest.approx(chain.tokens_per_step([0.8, 0.6, 0.3]))
    assert tree.attended(path, 5) == sum(5 + 1 + k for k in range(4))
    assert tree.head_elements(4096, 32_000, 5) == pytest.approx(740e6, rel=0.01)


def test_order_statistics():
    for row in table("order_statistics.csv"):
        kind, m, n = row["distribution"], int(row["M"]), int(row["N"])
        sigma = re.search(r"sigma=([\d.]+)", kind)
        for place, column in ((m, "mean_of_Mth_smallest"), (n, "mean_of_largest")):
            if sigma:
                found = order_statistics.lognormal(place, n, float(sigma[1]))
            else:
                found = (order_statistics.uniform if "uniform" in kind else order_statistics.exponential)(place, n)
            assert found == pytest.approx(float(row[column]), rel=1e-8), row


def test_where_the_tables_are():
    assert isinstance(needed("serving/decoding"), Path)
