"""The operators of a layer of Llama on AiM channels, in CENT's order: see `mappers.cent`.

The near-memory unit adds, takes roots, exponentials and rotations; vectors reach it with RD and come back with WR.

`released`: as CENT's generator has it, where it differs from what the layer needs. It multiplies hidden / 16 columns
for the rotation of Q (and hidden / 16 / repeat of K), a sixteenth of which hold something; it writes the rotated
vectors where it should read them; it writes a token's values for the first of the layers of a device only; and token
1024 n + 1 of the values to the row before its own. Of a layer on several devices it deals keys over the banks of all,
though one of them attends, so that keys overwrite each other and most scores are nobody's.
"""

from typing import NamedTuple

import numpy as np

from pimloom.arch.units import ceil_div
from pimloom.mappers.cent import (
    LEFT,
    PRODUCT,
    RIGHT,
    ROPE,
    Layer,
    Place,
    Program,
    columns_of,
    gemv,
    gemv_rows,
    move,
    multiply,
    spread,
)


class Rows(NamedTuple):
    """First rows of what a layer keeps."""

    x: int
    copy: int
    norm: int
    attended: int
    second_norm: int
    q_proj: int
    k_proj: int
    v_proj: int
    q: int
    k: int
    keys: int
    scores: int
    values: int
    o_proj: int
    gate_proj: int
    up_proj: int
    gated: int
    down_proj: int


def layer_program(layer: Layer, place: Place, context: int, released: bool = False) -> np.ndarray:
    """int64[instructions, N_INSTRUCTION]: one token with `context` tokens, itself among them, through one layer."""
    p = Program(place)
    _layer(p, layer, context, released)
    return p.end()


def layer_pieces(layer: Layer, place: Place, context: int) -> tuple[Rows, list[tuple[str, np.ndarray]]]:
    """Where the layer keeps what, and the same instructions but the last, EOC, by what they are for."""
    p = Program(place)
    return _layer(p, layer, context, released=False), p.pieces()


def key_banks(place: Place, released: bool) -> int:
    """Banks over which the tokens of the keys are dealt: one device attends."""
    return place.all_banks if released else place.layer_banks


def _layer(p: Program, layer: Layer, context: int, released: bool) -> Rows:
    rows, banks = _rows(p, layer, released), key_banks(p.place, released)
    _norm(p, "norm", layer.hidden, rows.x, rows.copy, rows.norm, (LEFT, RIGHT))
    q, kv = layer.heads * layer.head, layer.kv_heads * layer.head
    for name, row, n in (("q_proj", rows.q_proj, q), ("k_proj", rows.k_proj, kv), ("v_proj", rows.v_proj, kv)):
        gemv(p, row, layer.hidden, n)
        p.cut(name)
    _rotate(p, layer, rows, released)
    _store(p, layer, rows, context, released)
    _scores(p, layer, rows.keys, context, banks)
    _softmax(p, layer, rows.scores, context)
    _values(p, layer, rows.values, context)
    gemv(p, rows.o_proj, q, layer.hidden)
    p.pass_by()
    p.cut("o_proj")
    _norm(p, "second_norm", layer.hidden, rows.attended, rows.attended, rows.second_norm, (RIGHT, LEFT))
    gemv(p, rows.gate_proj, layer.hidden, layer.ffn, function=True)
    p.cut("gate_proj")
    gemv(p, rows.up_proj, layer.hidden, layer.ffn)
    p.cut("up_proj")
    _gate(p, layer.ffn, rows.gated)
    gemv(p, rows.down_proj, layer.ffn, layer.hidden)
    p.pass_by()
    p.cut("down_proj")
    return rows


def matrices_program(layer: Layer, place: Place, released: bool = False) -> np.ndarray:
    """The matrices alone, of a device that shares a layer with one where attention runs."""
    p = Program(place)
    rows = _rows(p, layer, released)
    q, kv = layer.heads * layer.head, layer.kv_heads * layer.head
    for row, n in ((rows.q_proj, q), (rows.k_proj, kv), (rows.v_proj, kv)):
        gemv(p, row, layer.hidden, n)
    gemv(p, rows.o_proj, q, layer.hidden)
    gemv(p, rows.gate_proj, layer.hidden, layer.ffn, function=True)
    gemv(p, rows.up_proj, layer.hidden, layer.ffn)
    gemv(p, rows.down_proj, layer.ffn, layer.hidden)
    return p.end()


def ends_program(layer: Layer, place: Place, vocabulary: int, released: bool = False) -> np.ndarray:
    """The embedding, the last norm and the LM head, all as CENT has them: the embedding as a product, too."""
    p = Program(place)
    rows = _rows(p, layer, released)
    gemv(p, p.rows(gemv_rows(place, vocabulary, layer.hidden)), vocabulary, layer.hidden)
    _squares(p, layer.hidden, rows.x)
    move(p, "WR", layer.hidden, RIGHT, rows.copy)
    multiply(p, layer.hidden, rows.copy, rows.norm)
    _product(p, layer.hidden, rows.norm)
    gemv(p, p.rows(gemv_rows(place, layer.hidden, vocabulary)), layer.hidden, vocabulary)
    return p.end()


def _rows(p: Program, layer: Layer, released: bool) -> Rows:
    place, q, kv = p.place, layer.heads * layer.head, layer.kv_heads * layer.head
    of_token = ceil_div(kv, place.row)
    heads_here = ceil_div(layer.kv_heads, place.block_channels)
    sizes = {
        **dict.fromkeys(("x", "copy", "norm", "attended", "second_norm", "q", "k"), 1),
        "q_proj": gemv_rows(place, layer.hidden, q),
        **dict.fromkeys(("k_proj", "v_proj"), gemv_rows(place, layer.hidden, kv)),
        "keys": ceil_div(place.longest, key_banks(place, released)) * of_token,
        "scores": ceil_div(layer.heads, place.block_channels * 4) * ceil_div(place.longest, place.row),
        "values": heads_here * layer.head // place.banks * ceil_div(place.longest, place.row),
        "o_proj": gemv_rows(place, q, layer.hidden),
        **dict.fromkeys(("gate_proj", "up_proj"), gemv_rows(place, layer.hidden, layer.ffn)),
        "gated": ceil_div(layer.ffn, place.layer_banks // 4 * place.row),
        "down_proj": gemv_rows(place, layer.ffn, layer.hidden),
    }
    return Rows(**{name: p.rows(sizes[name]) for name in Rows._fields})


def _squares(p: Program, n: int, row: int) -> None:
    """The sum of squares of a vector: each bank multiplies with its neighbour."""
    columns = columns_of(ceil_div(n, p.place.layer_banks // 2), p.place)
    p.add("WRMAC16")
    p.add("MAC16", columns, row=row)
    p.add("RDMAC16")


def _norm(p: Program, name: str, n: int, x: int, copy: int, weights: int, sides: tuple[int, int]) -> None:
    for side in (LEFT, RIGHT):
        banks, size = spread(p.place, n, 2, side)
        p.access("WR", columns_of(size, p.place), banks, x)
    _squares(p, n, x)
    p.cut(f"{name}: squares")
    for side in sides:
        move(p, "WR", n, side, copy)
    multiply(p, n, copy, weights)
    _product(p, n, weights)
    p.cut(name)


def _product(p: Program, n: int, row: int) -> None:
    """The product with what lies beside it, to the near-memory unit."""
    p.add("EWMUL16", columns_of(ceil_div(n, p.place.layer_banks // 4), p.place), row=row)
    move(p, "RD", n, PRODUCT, row)
    p.wait()


def _rotate(p: Program, layer: Layer, rows: Rows, released: bool) -> None:
    q, k = layer.hidden, layer.hidden // layer.repeat
    banks, size = spread(p.place, layer.hidden, 4, 0)
    lengths = {rows.q: ROPE * size, rows.k: ROPE * ceil_div(size, layer.repeat)}
    for row, length in lengths.items():
        p.access("WR", columns_of(length, p.place), banks + RIGHT, row)
    for (row, length), n in zip(lengths.items(), (q, k), strict=True):
        p.add("EWMUL16", n // p.place.column if released else columns_of(length, p.place), row=row)
    for row, length in lengths.items():
        p.access("WR" if released else "RD", columns_of(length, p.place), banks + PRODUCT, row)
    p.cut("rotation")


def _store(p: Program, layer: Layer, rows: Rows, context: int, released: bool) -> None:
    """Keys of the new token to one bank, values to all banks of the channels of its heads."""
    place, at, banks = p.place, context - 1, key_banks(p.place, released)
    each = layer.head * layer.kv_heads // place.row
    bank = at % banks % (place.channels * place.banks)
    for row in range(each):
        p.access_in_turn("WR", place.row // place.column, bank, rows.keys + at // banks * each + row)
    piece = at // place.row
    if released:
        piece = ceil_div(at, place.row) - 1 if at else 0
    heads, turns = ceil_div(layer.kv_heads, place.block_channels), layer.head // place.banks
    for head in range(heads):
        for turn in range(turns):
            row = rows.values + (head * turns + turn) * ceil_div(place.longest, place.row) + piece
            for channel in range(place.block_channels):
                if channel * heads + head >= layer.kv_heads:
                    break
                for block in range(1 if released else place.side_by_side):
                    mask = 1 << (place.channels - 1 - channel - block * place.block_channels)
                    p.add("WRA16", mask=mask, row=row)
    p.cut("new token")


def _scores(p: Program, layer: Layer, keys: int, context: int, banks: int) -> None:
    """Q times the keys: those of a head stand in a share of a row, a token in a bank."""
    place = p.place
    pieces, turns = ceil_div(layer.head * layer.kv_heads, place.row), ceil_div(context, banks)
    every = banks // place.banks
    for piece in range(pieces):
        for turn in range(turns):
            left = context - banks * turn
            needed = ceil_div(left, place.banks) if turn == turns - 1 else every
            mask = p.mask(place.channels) if every > place.channels else p.of_layers(needed)
            for _ in range(layer.repeat):
                p.add("WRGB", place.row // place.column, mask)
                for _ in range(place.row // layer.head):
                    p.add("WRMAC16", 1, mask)
                    p.add("MAC16", layer.head // place.column, mask, row=keys + turn * pieces + piece)
                    p.add("RDMAC16", 1, mask)
    p.cut("scores")


def _softmax(p: Program, layer: Layer, row: int, context: int) -> None:
    """Scores times their scale, exponentials in the near-memory unit, these times one over their sum."""
    place = p.place
    each, pieces = ceil_div(layer.heads, place.block_channels * 4), ceil_div(context, place.row)

    def pass_scores(name: str, side: int) -> None:
        for piece in range(pieces):
            columns = columns_of(min(context - piece * place.row, place.row), place)
            for score in range(each):
                groups = np.arange(place.layer_banks // 4)
                banks = groups[groups * each + score < layer.heads] * 4 + side
                p.access(name, columns, banks, row + score * pieces + piece)

    for what in ("scaled scores", "probabilities"):
        pass_scores("WR", LEFT)
        pass_scores("WR", RIGHT)
        for score in range(each):
            for piece in range(pieces):
                columns = columns_of(min(context - piece * place.row, place.row), place)
                p.add("EWMUL16", columns, row=row + score * pieces + piece)
        pass_scores("RD", PRODUCT)
        p.wait()
        p.cut(what)


def _values(p: Program, layer: Layer, values: int, context: int) -> None:
    """Scores times values: a head in a channel, a dimension in a bank."""
    place = p.place
    pieces, turns = ceil_div(context, place.row), layer.head // place.banks
    mask = p.of_layers(place.block_channels)
    kept = ceil_div(place.longest, place.row)
    for head in range(ceil_div(layer.kv_heads, place.block_channels)):
        for _ in range(layer.repeat):
            for piece in range(pieces):
                columns = columns_of(min(context - piece * place.row, place.row), place)
                p.add("WRGB", columns, mask)
                for turn in range(turns):
                    p.add("WRMAC16", 1, mask)
                    p.add("MAC16", columns, mask, row=values + (head * turns + turn) * kept + piece)
                    p.add("RDMAC16", 1, mask)
    p.cut("values")


def _gate(p: Program, n: int, row: int) -> None:
    """x times its sigmoid, times the other half of the gated FFN."""
    move(p, "WR", n, LEFT, row)
    move(p, "WR", n, RIGHT, row)
    multiply(p, n, row, row)
    p.cut("silu")
    move(p, "WR", n, LEFT, row)
    p.add("EWMUL16", columns_of(ceil_div(n, p.place.layer_banks // 4), p.place), row=row)
    move(p, "RD", n, PRODUCT, row)
    p.wait()
    p.cut("gated")
