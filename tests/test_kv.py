"""Placement of keys and values, and Algorithms 1 to 3, against the specification's numbers and ground truth."""

import numpy as np
import pytest

from pimloom.arch.command import Role
from pimloom.arch.pim_stream import PIM_ROLES
from pimloom.mappers.kv import Shape, attend, logit, place
from pimloom.mappers.packing import estimate_ck, pack, round_robin, split
from tests import neupims_stimuli

SEVEN_B = Shape(heads=8, kv_heads=8, head_dim=128, row=512, banks=32, lanes=16, allotted=4096)  # GPT3-7B, TP 4
NAMES = {
    "P_HEADER": Role.ANNOUNCE,
    "COMPS_READRES": Role.GEMV,
    "COMP": Role.MULTIPLY,
    "READRES": Role.RESULTS,
    "GWRITE": Role.COPY,
}


def requests(shared, name):
    tokens, channel = np.loadtxt(shared / f"data/neupims/inputs/{name}.csv", int, delimiter=",", skiprows=1, ndmin=2).T
    return tokens, channel


def fields(stream):
    return [(PIM_ROLES[x["cmd"]], x["row"], x["col"], x["count"], x["comps"], x["results"], x["last"]) for x in stream]


@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 300, 512, 513, 2048])
@pytest.mark.parametrize("heads", [8, 10, 14])
@pytest.mark.parametrize("mode", ["DUAL", "SINGLE"])
def test_streams_are_those_of_the_ground_truth(tokens, heads, mode):
    shape = SEVEN_B._replace(heads=heads, kv_heads=heads)
    fused = mode == "DUAL"
    for ours, theirs in (
        (logit(shape, tokens, 513, fused=fused, exact=False), neupims_stimuli.logit(mode, tokens, heads * 128, 128)),
        (
            attend(shape, tokens, 513, fused=fused, exact=False, same_rows=True),
            neupims_stimuli.attend(mode, tokens, heads, 128),
        ),
    ):
        expected = [
            (NAMES[x.kind], 0 if x.kind == "GWRITE" else x.row, x.column, x.count, x.comps, x.results, x.last)
            for x in theirs
        ]
        assert fields(ours) == expected


def test_rows_rise_in_each_channel_and_k_comes_first():
    found = place(SEVEN_B, np.array([512, 33, 1]), np.array([3, 0, 3]), 513)
    # 8 rows for 32 tokens of K, 128 rows for 512 tokens of V: the full width, as released
    assert [tuple(c) for c in found] == [(3, 513, 513 + 128), (0, 513, 513 + 16), (3, 769, 769 + 8)]


def test_the_estimate_of_512_tokens():
    assert estimate_ck(SEVEN_B, 512) == 12_776


@pytest.mark.parametrize(("name", "halves"), [("L-b64", (12_239, 5_861)), ("L-b256", (59_711, 14_890))])
def test_packing_gives_the_lists_of_the_ground_truth(shared, name, halves):
    tokens, channel = requests(shared, f"{name}-rr")
    assert (channel == round_robin(tokens, 32)).all()
    order = np.argsort(-tokens, kind="stable")
    packed = pack(lambda n: estimate_ck(SEVEN_B, n), tokens[order].tolist(), 32)
    expected_tokens, expected = requests(shared, f"{name}-gml")
    assert sorted(zip(tokens[order], packed, strict=True)) == sorted(zip(expected_tokens, expected, strict=True))
    first, second = split(expected, 32, 2)
    assert len(first) == len(second) == len(tokens) // 2
    assert (expected_tokens[first].sum(), expected_tokens[second].sum()) == halves


@pytest.mark.parametrize(("name", "fused", "blocked"), [("L-b64", 11_436, 86_924), ("L-b256", 46_858, 356_874)])
def test_transactions_of_a_layer(shared, name, fused, blocked):
    tokens, _ = requests(shared, f"{name}-gml")
    for kind, expected in ((True, fused), (False, blocked)):
        streams = [
            (logit(SEVEN_B, n, 0, fused=kind, exact=False), attend(SEVEN_B, n, 0, fused=kind, exact=False))
            for n in tokens.tolist()
        ]
        assert sum(len(a) + len(b) for a, b in streams) == expected


@pytest.mark.parametrize("dim", [16, 48, 64, 80, 96, 100, 112, 128, 256, 500])
@pytest.mark.parametrize("heads", [(4, 4), (8, 2), (7, 7), (32, 32)])
def test_a_head_that_a_row_cuts_is_multiplied_piece_by_piece(dim, heads):
    """Each element of each query head in one piece, a result for each piece, whatever divides what."""
    shape = SEVEN_B._replace(heads=heads[0], kv_heads=heads[1], head_dim=dim)
    elements = range(shape.width)
    pieces: dict[tuple[int, int], list[int]] = {(e // dim, e // shape.row): [] for e in elements}
    for e in elements:
        pieces[e // dim, e // shape.row].append(e)
    comps = sum(-(-len(piece) // shape.lanes) for piece in pieces.values()) * shape.shared
    for tokens, tiles in ((1, 1), (33, 2)):
        plain = logit(shape, tokens, 0, fused=False, exact=True)
        fused = logit(shape, tokens, 0, fused=True, exact=True)
        role = {
            r: next(i for i, name in enumerate(PIM_ROLES) if name is r)
            for r in (Role.MULTIPLY, Role.RESULTS, Role.GEMV, Role.ANNOUNCE)
        }
        assert (plain["cmd"] == role[Role.MULTIPLY]).sum() == tiles * comps
        assert (plain["cmd"] == role[Role.RESULTS]).sum() == tiles * len(pieces) * shape.shared
        gemv = fused[fused["cmd"] == role[Role.GEMV]]
        assert len(gemv) == tiles * len(pieces) * shape.shared and gemv["count"].sum() == tiles * comps
        for stream in (plain, fused):
            header = stream[stream["cmd"] == role[Role.ANNOUNCE]]
            assert (
                header["comps"].sum() == tiles * comps and header["results"].sum() == tiles * len(pieces) * shape.shared
            )
            assert set(stream["head"].tolist()) - {-1} == set(range(heads[0]))
