"""Heads of different lengths and heads that share keys: dealt, counted and asked for as their words say."""

from collections import Counter
from random import Random

import msgspec
import numpy as np
import pytest

from pimloom.arch.error import UserError
from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.cycle_sim.attacc.simulate import simulate
from pimloom.energy.attacc import stack_energy, way
from pimloom.mappers.attacc.groups import count_groups, deal, layouts, requests
from pimloom.mappers.attacc.layout import KINDS, Placement, Work, lay_out
from pimloom.mappers.attacc.stream import BANK, MAC, OP, ROW, streams
from pimloom.systems.devices.attacc.box import Box, Decoder, Experts, Stacks
from pimloom.systems.devices.attacc.gpu import A100A, Matrix, product
from pimloom.systems.devices.attacc.linear import linear_parts, tokens_of_experts
from pimloom.systems.devices.attacc.stack import attention, attention_of_groups
from pimloom.systems.devices.attacc.step import decode_step
from pimloom.systems.reference.attacc import PHYSICAL

PART = load_part("hbm3_attacc_5200").value
ORG, TABLE = PART.organization, compile_table(PART)
WORK = Work(1, 1, 128, 2)
PLACEMENTS = tuple(Placement)


def draw(seed: int) -> tuple[Placement, list[int], int]:
    rng = Random(f"groups {seed}")
    return rng.choice(PLACEMENTS), [rng.randint(1, 900) for _ in range(rng.randint(1, 9))], rng.choice((1, 2, 3, 8))


@pytest.mark.parametrize("seed", range(30))
def test_what_is_asked_for_is_what_is_counted(seed: int) -> None:
    placement, contexts, sharers = draw(seed)
    each = layouts(ORG, placement, WORK, contexts)
    asked = Counter(KINDS[op] for op in requests(ORG, each, sharers)[:, OP].tolist())
    del asked["BARRIER"]
    assert asked == Counter(count_groups(each, sharers))


@pytest.mark.parametrize("seed", range(12))
def test_equal_heads_ask_for_the_same_as_in_streams(seed: int) -> None:
    rng = Random(f"equal {seed}")
    placement, heads, context = rng.choice(PLACEMENTS), rng.randint(1, 70), rng.randint(1, 700)
    work = WORK._replace(heads=heads, context=context)
    layout = lay_out(ORG, placement, work)
    mine, old = requests(ORG, [layout] * -(-heads // 16), 1), streams(ORG, layout, work)
    assert any(np.array_equal(mine, same.requests) for same in old)
    cycles = max(simulate(TABLE, placement, same.requests).cycles for same in old)
    assert simulate(TABLE, placement, mine).cycles == cycles


def test_query_heads_of_a_group_read_the_same_rows() -> None:
    shared, alone = (requests(ORG, layouts(ORG, Placement.BANK, WORK, [600] * n), s) for n, s in ((2, 4), (8, 1)))
    assert shared[:, OP].tolist() == alone[:, OP].tolist()
    rows, more = (np.unique(found[found[:, OP] == MAC][:, [BANK, ROW]], axis=0) for found in (shared, alone))
    assert 4 * len(rows) == len(more)


def test_groups_go_to_the_channel_with_the_fewest_keys() -> None:
    assert deal([4, 9, 1, 1, 1], 2) == [(9,), (4, 1, 1, 1)] and deal([3], 3) == [(3,), (), ()]
    contexts = [Random(1).randint(1, 4000) for _ in range(200)]
    each = deal(contexts, 16)
    assert sorted(context for of in each for context in of) == sorted(contexts)
    assert max(map(sum, each)) - min(map(sum, each)) <= 1500  # less than a request of a few thousand


def test_keys_that_do_not_fit_a_channel() -> None:
    said = "heads: expected K of them in 8192 rows of a bank, got 8196 rows for 1366 in a channel"
    with pytest.raises(UserError, match=said):
        requests(ORG, layouts(ORG, Placement.BANK, WORK, [1500] * 1366), 1)


def test_attention_of_equal_groups_is_that_of_as_many_heads() -> None:
    """160 heads: two in each channel of five stacks."""
    of = ORG, TABLE, Placement.BANK
    heads = attention(*of, Work(32, 1000, 128, 2), PHYSICAL)
    groups = attention_of_groups(*of, WORK, [1000] * 160, 1, 5, PHYSICAL)
    shared = attention_of_groups(*of, WORK, [1000] * 80, 2, 5, PHYSICAL)
    assert groups.cycles == heads.cycles and groups.energy.total_pj == pytest.approx(5 * heads.energy.total_pj)
    assert shared.counts == groups.counts and shared.cycles <= 1.05 * groups.cycles


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("field", ["pseudo_channels", "ranks", "bank_groups", "banks_per_group", "access_bits"])
def test_cells_draw_for_the_bytes_that_are_read(placement: Placement, field: str) -> None:
    """K and V of a head, each byte once: 2 x 1,024 x 128 elements of 2 bytes, whatever the channel looks like."""
    drawn = []
    for times in (1, 2):
        org = msgspec.structs.replace(ORG, **{field: times * getattr(ORG, field)})
        work = Work(16, 1024, 128, 2)
        counts = count_groups(layouts(org, placement, work, [1024] * 16), 1)
        drawn.append(stack_energy(org, placement, counts, 0).pj["cells"])
    assert drawn[0] == pytest.approx(16 * 2 * 1024 * 128 * 2 * way(placement).of_bytes(1)) == pytest.approx(drawn[1])


def test_a_context_that_does_not_fit_is_named() -> None:
    with pytest.raises(UserError, match="9376 rows for 32 heads of context 1200000; take fewer heads or a shorter"):
        attention(ORG, TABLE, Placement.BANK, Work(32, 1_200_000, 128, 2), PHYSICAL)


def test_heads_that_share_keys_read_them_once_on_a_gpu() -> None:
    one, four = (Decoder(1, 4096, 32, 14_336, True, kv) for kv in (32, 8))
    alone, shared = (decode_step(Box(A100A, 8), decoder, 64, 4000) for decoder in (one, four))
    assert shared.seconds["score"] < 0.3 * alone.seconds["score"]
    assert shared.seconds["softmax"] == alone.seconds["softmax"] and shared.seconds["qkv"] < alone.seconds["qkv"]


def test_lengths_may_be_given_one_by_one() -> None:
    box, decoder = Box(A100A, 8, Stacks(PART)), Decoder(4, 4096, 32, 14_336, True, 8)
    assert decode_step(box, decoder, 3, (700, 700, 700)) == decode_step(box, decoder, 3, 700)
    uneven = decode_step(box, decoder, 3, (100, 700, 1300))
    assert uneven.seconds["transfer"] < uneven.seconds["score"]
    assert uneven.joules["score"] == pytest.approx(decode_step(box, decoder, 3, 700).joules["score"], rel=0.02)


def test_experts_are_products_of_the_tokens_that_each_gets() -> None:
    box, decoder = Box(A100A, 8), Decoder(1, 4096, 32, 14_336, True, 8, None, Experts(8, 2))
    assert tokens_of_experts(decoder, 3) == [1] * 6 and tokens_of_experts(decoder, 7) == [2] * 6 + [1] * 2
    parts = linear_parts(box, decoder, 7, PHYSICAL)
    each = [product(A100A, Matrix(m, 14_336 / 8, 4096, n), 2, PHYSICAL) for m, n in ((2, 6), (1, 2))]
    assert parts["up"].seconds == sum(cost.seconds for cost in each) and "router" in parts
    dense = linear_parts(box, decoder._replace(experts=None), 7, PHYSICAL)
    assert 6 < parts["down"].seconds / dense["down"].seconds < 9  # eight matrices are read
