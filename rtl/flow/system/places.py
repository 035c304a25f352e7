"""Where everything of a toy decoder lies: in the scratchpad, and in the rows of the channels."""

from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.part import Part
from pimloom.arch.units import ceil_div
from pimloom.mappers.kv import Cache, Shape, place
from pimloom.rtl.flow.system.toy import MATRICES, Toy
from pimloom.rtl.system.plan import COLUMNS, LANES, Sizes, small_channel

VECTOR_ROW = 0  # of bank 0: from where GWRITE copies


class Share(NamedTuple):
    """A part of a matrix, in the order of its words: `words` of them from `word` on, in a bank of a channel."""

    channel: int
    bank: int
    row: int
    word: int
    words: int


class Places(NamedTuple):
    """Elements of the scratchpad where things begin, and rows of the channels.

    x, h, qkv, attended, y, inner: of all requests, row by row; weights: of each matrix, one layer's at a time; biases,
    norms: by layer and name, a norm with 1 / n before it; scores, shares: of each request, a row of the banks for each
    head; newest: of each layer and request, the words of V that the new token completes.
    caches: of each layer and request; matrices: of each layer and matrix; rows: of a bank that are used.
    """

    shape: Shape
    x: int
    h: int
    qkv: int
    attended: int
    y: int
    inner: int
    weights: dict[str, int]
    biases: dict[tuple[int, str], int]
    norms: dict[tuple[int, str], int]
    scores: list[int]
    shares: list[int]
    newest: dict[tuple[int, int], int]
    caches: dict[tuple[int, int], Cache]
    matrices: dict[tuple[int, str], list[Share]]
    elements: int
    rows: int


def lay_out(toy: Toy) -> Places:
    """Raises UserError for what does not fit words, banks or rows of these sizes."""
    row = LANES * COLUMNS
    shape = Shape(toy.heads, toy.heads, toy.head_dim, row, LANES, LANES, toy.width)
    if toy.head_dim % LANES or toy.inner % LANES or row % toy.head_dim or max(toy.tokens) > row:
        said = f"heads of {toy.head_dim}, FFN of {toy.inner}, {max(toy.tokens)} tokens"
        raise UserError(f"a toy decoder has multiples of {LANES} in a head and FFN, and tokens up to {row}, not {said}")
    top = 0

    def take(elements: int) -> int:
        nonlocal top
        at, top = top, top + ceil_div(elements, LANES) * LANES
        return at

    n, layers, requests = len(toy.tokens), range(toy.layers), range(len(toy.tokens))
    x, h, qkv, attended, y, inner = (take(n * each) for each in _widths(toy))
    weights = {name: take(np.prod(toy.matrix(name)).item()) for name in MATRICES}
    biases = {(layer, name): take(toy.matrix(name)[1]) for layer in layers for name in MATRICES}
    norms = {(layer, name): take(2 + 2 * toy.width) for layer in layers for name in ("1", "2")}
    scores, shares = ([take(toy.heads * row) for _ in requests] for _ in range(2))
    newest = {(layer, r): take(toy.width * LANES) for layer in layers for r in requests}
    caches, matrices, used = dict[tuple[int, int], Cache](), dict[tuple[int, str], list[Share]](), VECTOR_ROW + 1
    channel = np.array([toy.channel(r) for r in requests])
    for layer in layers:
        placed = place(shape, np.array(toy.tokens), channel, used)
        caches |= {(layer, r): cache for r, cache in enumerate(placed)}
        tokens = zip(placed, toy.tokens, strict=True)
        used = max(cache.row_v + shape.rows_v(count) for cache, count in tokens)
    for layer in layers:
        for name in MATRICES:
            words = np.prod(toy.matrix(name)).item() // LANES
            shares_of, rows = _deal(words, used, toy.channels)
            matrices[layer, name], used = shares_of, used + rows
    return Places(
        shape, x, h, qkv, attended, y, inner, weights, biases, norms, scores, shares, newest, caches, matrices,
        top, used,
    )  # fmt: skip


def _widths(toy: Toy) -> tuple[int, ...]:
    w = toy.width
    return w, w, 3 * w, w, w, toy.inner


def _deal(words: int, row: int, channels: int) -> tuple[list[Share], int]:
    """A matrix over all banks of all channels, and the rows that it takes of each."""
    places = [(c, b) for b in range(LANES) for c in range(channels)]
    each = ceil_div(words, len(places))
    found = [
        Share(c, b, row, i * each, min(each, words - i * each)) for i, (c, b) in enumerate(places) if i * each < words
    ]
    return found, ceil_div(each, COLUMNS)


def sizes_of(part: Part, toy: Toy, places: Places, steps: int) -> Sizes:
    """The machine that holds it, with channels of the part and programs of so many steps."""
    longest = max(toy.width, toy.inner, 3 * toy.width, places.shape.row)
    return Sizes(
        small_channel(part, _power(places.rows)), toy.channels, _power(places.elements // LANES), _power(steps),
        len(toy.contexts), toy.layers, longest, _power(len(toy.tokens)),
    )  # fmt: skip


def _power(n: int) -> int:
    """The smallest power of two from n on."""
    return 1 << max(n - 1, 1).bit_length()
