"""Layouts: every element in exactly one place, inside the bank; the streams touch just those places."""

import re
from itertools import pairwise, product
from math import ceil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.arch.llm import load_llm
from pimloom.arch.part import PimUnit
from pimloom.arch.program import PimStep
from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.mappers import gemv
from pimloom.mappers.decode import Decoder
from pimloom.mappers.geometry import Geometry, geometry
from pimloom.mappers.layout import Packed, RowAligned
from pimloom.mappers.plan import Plan, Weight, max_tokens, plan

PART = load_part("gddr6_pim_gpt").value
TABLE = compile_table(PART)
EIGHT = geometry(PART, 8)
GPT2 = load_llm("gpt2")


@st.composite
def geometries(draw):
    groups, lane = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2, 4)))
    row = lane * draw(st.integers(1, 6))
    banks = groups * draw(st.integers(1, 3))
    return Geometry(draw(st.integers(1, 3)), banks, groups, 10**6, row, lane, row, 2)


@st.composite
def layouts(draw, kinds=(Packed, RowAligned)):
    geo = draw(geometries())
    sizes = draw(st.integers(1, 3 * geo.row + 1)), draw(st.integers(1, 4 * geo.all_banks + 1))
    return draw(st.sampled_from(kinds))(geo, *sizes, draw(st.integers(0, 5)))


def elements(layout):
    return product(range(layout.n_in), range(layout.n_out))


def places(layout, outputs=None):
    """(row, column) of every element, in any bank."""
    which = product(range(layout.n_in), range(layout.n_out) if outputs is None else outputs)
    return {layout.place(i, j)[2:4] for i, j in which}


def accesses(stream, name):
    """(row, column) of every command of that name, one by one."""
    found = stream[stream["cmd"] == TABLE.cmd(name)]
    return [(int(r["row"]), int(r["col"]) + k) for r in found for k in range(r["count"])]


def banks_of(stream, name, geo):
    found = stream[stream["cmd"] == TABLE.cmd(name)]
    return set((found["bg"] * (geo.banks // geo.bank_groups) + found["bank"]).tolist())


# Places.


@given(layouts())
def test_every_element_has_a_place_of_its_own(layout):
    geo, seen = layout.geo, set()
    for i, j in elements(layout):
        place = layout.place(i, j)
        assert layout.element(place) == (i, j)
        channel, bank, row, column, lane = place
        assert 0 <= channel < geo.channels and 0 <= bank < geo.banks
        assert layout.first_row <= row < layout.end_row and 0 <= column < geo.row // geo.lane and 0 <= lane < geo.lane
        seen.add(place)
    assert len(seen) == layout.n_in * layout.n_out


@given(layouts())
def test_every_place_has_at_most_one_element(layout):
    """All cells of its rows and of the rows beside them: as many elements as the matrix has, the rest padding."""
    geo = layout.geo
    rows = range(max(layout.first_row - 1, 0), layout.end_row + 1)
    cells = product(range(geo.channels), range(geo.banks), rows, range(geo.row // geo.lane), range(geo.lane))
    place = type(layout.place(0, 0))
    found = [layout.element(place(*cell)) for cell in cells]
    assert sorted(e for e in found if e is not None) == sorted(elements(layout))


@given(geometries(), st.integers(1, 5), st.data())
def test_experts_lie_beside_and_behind_each_other(geo, count, data):
    """Each element in a place of its own, and no more rows than if all outputs were those of one matrix, rounded up."""
    n_in, n_out = data.draw(st.integers(1, 2 * geo.row)), data.draw(st.integers(1, 2 * geo.all_banks))
    weight = Weight("experts", n_in, n_out, count)
    layouts, first = weight.layouts(geo, 3), data.draw(st.integers(0, count - 1))
    seen = [(e, layout.place(i, j)) for e, layout in enumerate(layouts) for i, j in elements(layout)]
    assert len({place for _, place in seen}) == len(seen) == count * n_in * n_out
    assert {row for _, (_, _, row, *_) in seen} <= set(range(3, 3 + weight.rows(geo)))
    assert all(0 <= channel < geo.channels for _, (channel, *_) in seen)
    for e, place in seen:
        assert (layouts[first].element(place) is not None) == (e == first)
    alone = Packed(geo, n_in, n_out).rows
    beside = max(geo.all_banks // n_out, 1)
    assert weight.rows(geo) == -(-count // beside) * alone


@given(geometries(), st.data())
def test_rows_of_aligned_sizes(geo, data):
    n_in = geo.lane * data.draw(st.integers(1, 3 * geo.row // geo.lane))
    n_out = data.draw(st.integers(1, 4 * geo.all_banks))
    packed, cols = Packed(geo, n_in, n_out, 7), -(-n_out // geo.all_banks)
    assert packed.rows == -(-cols * n_in // geo.row)
    assert RowAligned(geo, n_in, n_out).rows == cols * -(-n_in // geo.row)
    assert {row for row, _ in places(packed)} == set(range(7, packed.end_row))


@given(layouts())
def test_a_bank_is_as_full_as_any_other(layout):
    """Outputs go round all banks, channel by channel."""
    banks = layout.geo.all_banks
    for j in range(min(layout.n_out, 2 * banks)):
        channel, bank, *_ = layout.place(0, j)
        assert channel * layout.geo.banks + bank == j % banks


# Streams.


@given(layouts(kinds=(Packed,)))
def test_a_product_reads_each_weight_column_once(w):
    stream = gemv.product(TABLE, w)
    read = accesses(stream, "MACab")
    assert len(read) == len(set(read)) == w.slots * sum(w.chunks) // w.geo.lane
    assert set(read) == places(w)
    assert sum(n for n in stream["count"][stream["cmd"] == TABLE.cmd("WRGB")]) == sum(w.chunks) // w.geo.lane
    assert len(accesses(stream, "RDMAC")) == w.slots * len(w.chunks) * ceil(w.geo.banks / w.geo.lane)


@given(layouts(kinds=(Packed,)), st.data())
def test_a_score_reads_the_slots_that_are_there(k, data):
    slots = data.draw(st.integers(1, k.slots))
    there = range(min(slots * k.geo.all_banks, k.n_out))
    read = accesses(gemv.product(TABLE, k, None, slots), "MACab")
    assert len(read) == len(set(read)) and set(read) == places(k, there)


@given(layouts(kinds=(RowAligned,)), st.data())
def test_a_weighted_sum_reads_the_tokens_that_are_there(v, data):
    tokens = data.draw(st.integers(1, v.n_in))
    read = accesses(gemv.weighted_sum(TABLE, v, tokens), "MACab")
    there = {v.place(i, j)[2:4] for i, j in product(range(tokens), range(v.n_out))}
    assert len(read) == len(set(read)) and set(read) == there


@given(layouts(), st.integers(1, 5), st.data())
def test_query_heads_that_share_a_row_meet_every_column_once_each(layout, vectors, data):
    """As many as the buffer holds come in one load; a row is then opened no more often than for each by itself."""
    geo, packed = layout.geo, isinstance(layout, Packed)
    tokens = data.draw(st.integers(1, layout.n_in))

    def stream(n):
        return gemv.product(TABLE, layout, vectors=n) if packed else gemv.weighted_sum(TABLE, layout, tokens, n)

    one, all_ = stream(1), stream(vectors)
    assert sorted(accesses(all_, "MACab")) == sorted(accesses(one, "MACab") * vectors)
    for name in ("WRGB", "RDMAC"):
        assert len(accesses(all_, name)) == vectors * len(accesses(one, name))
    assert len(accesses(all_, "ACTab")) <= vectors * len(accesses(one, "ACTab"))
    loads = all_["count"][all_["cmd"] == TABLE.cmd("WRGB")]
    assert max(loads) * geo.lane <= geo.buffer
    widths = layout.chunks if packed else [min(tokens - i, geo.row) for i in range(0, tokens, geo.row)] * layout.slots
    assert len(loads) == sum(ceil(vectors / (geo.buffer // (ceil(w / geo.lane) * geo.lane))) for w in widths)


@given(layouts(kinds=(Packed,)), st.data())
def test_a_k_write_hits_the_cells_of_its_token(k, data):
    token = data.draw(st.integers(0, k.n_out - 1))
    stream, placed = gemv.write_k(TABLE, k, token), [k.place(i, token) for i in range(k.n_in)]
    written = accesses(stream, "WR")
    assert len(written) == len(set(written)) and set(written) == {p[2:4] for p in placed}
    for name in ("ACT", "WR", "PRE"):
        assert banks_of(stream, name, k.geo) == {p.bank for p in placed}
    assert len(accesses(stream, "ACT")) == len(accesses(stream, "PRE")) >= len({p.row for p in placed})
    assert {row for row, _ in accesses(stream, "ACT")} == {p.row for p in placed}


@given(layouts(kinds=(RowAligned,)), st.data())
def test_a_v_write_hits_the_cells_of_its_token(v, data):
    token = data.draw(st.integers(0, v.n_in - 1))
    stream, placed = gemv.write_v(TABLE, v, token), {v.place(token, j)[2:4] for j in range(v.n_out)}
    written = accesses(stream, "WRAab")
    assert len(written) == v.slots * ceil(v.geo.banks / v.geo.lane) and set(written) == placed
    assert [row for row, _ in accesses(stream, "ACTab")] == [row for row, _ in written]


@pytest.mark.parametrize("name", ["gpt2", "gpt2-xl"])
def test_the_streams_of_a_real_layer_read_its_own_rows(name):
    """Every weight of all four matrices in one MAC, and nothing else; K and V in the rows behind."""
    made = plan(load_llm(name), EIGHT, 300)
    layer = made.layer(5)
    steps = {s.name: s.stream for s in Decoder(made, TABLE).layer_steps(300, layer=5) if isinstance(s, PimStep)}
    for matrix, w in zip(("QKV", "projection", "FFN1", "FFN2"), layer.weights, strict=True):
        read = accesses(steps[matrix], "MACab")
        assert len(read) == len(set(read)) == w.slots * w.n_in // 16
        assert {row for row, _ in read} == set(range(w.first_row, w.end_row))
    assert {row for row, _ in accesses(steps["p V"], "MACab")} == set(range(layer.v.first_row, layer.v.end_row))
    assert {row for row, _ in accesses(steps["score"], "MACab")} <= set(range(layer.k.first_row, layer.k.end_row))


# Plans.


@pytest.mark.parametrize(("name", "tokens", "lm_head"), [("gpt2", 1024, True), ("gpt2-xl", 3840, False)])
def test_layouts_of_a_plan_follow_each_other(name, tokens, lm_head):
    made = plan(load_llm(name), EIGHT, tokens, lm_head)
    parts: list[Packed | RowAligned] = []
    for index in range(made.spec.num_hidden_layers):
        layer = made.layer(index)
        parts += [*layer.weights, layer.k, layer.v]
    parts += [made.head] if made.head else []
    assert parts[0].first_row == 0 and all(a.end_row == b.first_row for a, b in pairwise(parts))
    assert parts[-1].end_row == made.rows <= EIGHT.rows
    assert sum(w.rows for w in parts if w.n_out != tokens and w.n_in != tokens) == made.weight_rows


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 2**14), st.booleans())
def test_the_largest_token_count_fits_and_the_next_does_not(layers, heads, rows, lm_head):
    spec = msgspec.structs.replace(
        GPT2, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads,
        hidden_size=64 * heads, intermediate_size=256 * heads,
    )  # fmt: skip
    geo = EIGHT._replace(rows=rows)
    most = max_tokens(spec, geo, lm_head)
    assert most % 128 == 0 and Plan(spec, geo, most + 128, lm_head).rows > rows
    assert most == 0 or plan(spec, geo, most, lm_head).rows <= rows
    assert most <= max_tokens(spec, geo._replace(rows=rows + 1), lm_head)
    assert max_tokens(spec, geo, True) <= max_tokens(spec, geo, False)


# Errors.


def test_a_model_that_does_not_fit():
    with pytest.raises(UserError) as error:
        plan(load_llm("gpt2-xl"), EIGHT, 4096)
    assert str(error.value) == (
        "gpt2-xl with 4,096 tokens needs 4,328,521,728 bytes of PIM memory, there are 4,294,967,296: "
        "at most 3,840 tokens fit; for 4,096 --set dram.channels=9"
    )


def test_a_model_whose_weights_do_not_fit():
    with pytest.raises(UserError) as error:
        plan(load_llm("gpt3-xl"), EIGHT._replace(rows=9000), 1)
    assert str(error.value) == (
        "gpt3-xl with 1 tokens needs 2,529,165,312 bytes of PIM memory, there are 2,359,296,000: "
        "its weights alone take 2,415,919,104; take a smaller model or --set dram.channels=9"
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"kv_lora_rank": 64, "rotary_dim": 16, "v_head_dim": 64},
            "x: PIM-GPT has no rule for a compressed cache (MLA): it would need products of each query head with a "
            "matrix of its own, and a second copy of the cache, for keys serve as values across the banks",
        ),
        (
            {"activation": "quick_gelu"},
            "x: PIM-GPT's ASIC has no unit for activation 'quick_gelu'; expected gelu, gelu_new, gelu_fast, "
            "gelu_pytorch_tanh, relu, silu",
        ),
        ({"num_key_value_heads": 5}, "x: num_key_value_heads 5: expected a divisor of the 12 heads"),
    ],
)
def test_a_model_of_another_shape(fields, sentence):
    spec = msgspec.structs.replace(GPT2, name="x", model_type="llama", **fields)
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
        plan(spec, EIGHT, 1)


def test_heads_that_the_banks_of_a_channel_do_not_divide():
    spec = msgspec.structs.replace(GPT2, num_attention_heads=32, num_key_value_heads=32, head_dim=24)
    with pytest.raises(UserError) as error:
        plan(spec, EIGHT, 1)
    assert str(error.value) == (
        "gpt2: head_dim 24 must be a multiple of the 16 banks of a channel: "
        "they share one buffered head of softmax probabilities; take a part with 8"
    )


def test_parts_that_cannot_hold_a_matrix():
    assert isinstance(PART.pim_unit, PimUnit)
    small = msgspec.structs.replace(PART.pim_unit, global_buffer_bytes=1024)
    with pytest.raises(UserError, match="the global buffer holds 512 elements, but a row of operands needs 1024$"):
        geometry(msgspec.structs.replace(PART, pim_unit=small), 8)
    with pytest.raises(UserError, match="this part has no PIM unit: a matrix cannot be mapped onto it$"):
        geometry(msgspec.structs.replace(PART, pim_unit=None), 8)


def test_geometry_of_the_part():
    assert tuple(EIGHT) == (8, 16, 4, 16384, 1024, 16, 1024, 2)
    assert EIGHT.all_banks * EIGHT.rows * EIGHT.row * EIGHT.element_bytes == 2**32
