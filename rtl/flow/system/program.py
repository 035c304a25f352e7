"""A toy decoder as programs: what the NPU and each channel do in each of their jobs."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.pim_stream import ANNOUNCE, COPY, GEMV
from pimloom.mappers.interleave import turns
from pimloom.mappers.kv import attend, logit
from pimloom.rtl.flow.system.places import VECTOR_ROW, Places
from pimloom.rtl.flow.system.toy import Toy
from pimloom.rtl.npu.vector import Op
from pimloom.rtl.npu_pim.plan import Opcodes
from pimloom.rtl.system.plan import COLUMNS, LANES, MOVE, ChannelKind, NpuKind

Step = dict[str, Any]  # fields of a step's layout
Steps = list[Step]


class Through(NamedTuple):
    """Projection and FFN of a sub-batch in a layer."""

    layer: int
    sub_batch: int


class Qkv(NamedTuple):
    """Q, K and V of some sub-batches in a layer."""

    layer: int
    sub_batches: tuple[int, ...]


class Programs(NamedTuple):
    """npu: by job; channels: of each channel, by layer and sub-batch. The last step of each is END."""

    npu: dict[Through | Qkv, Steps]
    channels: list[dict[tuple[int, int], Steps]]


def programs(toy: Toy, places: Places, op: Opcodes) -> Programs:
    """All jobs of an iteration."""
    npu, pim = dict[Through | Qkv, Steps](), list[tuple[int, int]]()
    for at in turns(len(toy.contexts), range(toy.layers)):
        stage = at.stage
        if stage.through is not None:
            through = Through(at.then if stage.behind("through") else at.here, stage.through)
            npu[through] = [*_through(toy, places, through), _end()]
        if stage.qkv:
            qkv = Qkv(at.then if stage.behind("qkv") else at.here, tuple(stage.qkv))
            npu[qkv] = [*_qkv(toy, places, qkv), _end()]
        if stage.attention is not None:
            pim.append((at.then if stage.behind("attention") else at.here, stage.attention))
    channels = [
        {job: [*_attention(toy, places, op, c, *job), _end()] for job in pim} for c in range(toy.channels)
    ]
    return Programs(npu, channels)


def _end() -> Step:
    return {"kind": 0}


def _vector(op: int, x: int, o: int, count: int, *, y: int = 0, o_step: int = 1, wait: bool = False) -> Step:
    fields = {"op": op, "x": x, "y": y, "o": o, "count": count, "x_step": 1, "o_step": o_step}
    return {"kind": int(NpuKind.VECTOR), "wait": int(wait), **fields}


def _qkv(toy: Toy, places: Places, job: Qkv) -> Iterator[Step]:
    rows = [r for s in job.sub_batches for r in toy.rows[s]]
    yield from _load(places, job.layer, "qkv")
    yield from _norm(toy, places, job.layer, "1", rows)
    yield from _gemm(toy, places, job.layer, "qkv", places.h, places.qkv, rows)


def _through(toy: Toy, places: Places, job: Through) -> Iterator[Step]:
    """Weights of a matrix come while the array works on the one before."""
    rows, layer = list(toy.rows[job.sub_batch]), job.layer
    yield from _load(places, layer, "out")
    yield from _gemm(toy, places, layer, "out", places.attended, places.y, rows, then="up")
    yield from _residual(toy, places, rows)
    yield from _norm(toy, places, layer, "2", rows)
    yield from _gemm(toy, places, layer, "up", places.h, places.inner, rows, then="down")
    inner = [places.inner + r * toy.inner for r in rows]
    yield from _first_waits([_vector(Op.GELU, at, at, toy.inner) for at in inner])
    yield from _gemm(toy, places, layer, "down", places.inner, places.y, rows)
    yield from _residual(toy, places, rows)


def _first_waits(steps: Sequence[Step]) -> Iterator[Step]:
    """Each needs what was before, not what the others make."""
    yield from ({**step, "wait": int(i == 0)} for i, step in enumerate(steps))


def _load(places: Places, layer: int, name: str) -> Iterator[Step]:
    for share in places.matrices[layer, name]:
        at = places.weights[name] + share.word * LANES
        where = {"channel": share.channel, "bank": share.bank, "place": share.row * COLUMNS, "count": share.words}
        yield {"kind": int(NpuKind.READ), "x": at, **where}


def _norm(toy: Toy, places: Places, layer: int, which: str, rows: Sequence[int]) -> Iterator[Step]:
    gains, w = places.norms[layer, which], toy.width
    yield from _first_waits([_vector(Op.NORM, places.x + r * w, places.h + r * w, w, y=gains) for r in rows])


def _gemm(
    toy: Toy, places: Places, layer: int, name: str, a: int, o: int, rows: Sequence[int], then: str = ""
) -> Iterator[Step]:
    """Product, then bias; the weights of `then` come beside the product."""
    k, n = toy.matrix(name)
    at = {"x": a + rows[0] * k, "y": places.weights[name], "o": o + rows[0] * n}
    yield {"kind": int(NpuKind.GEMM), "wait": 1, **at, "m": len(rows), "k": k // LANES, "n": n // LANES}
    if then:
        yield from _load(places, layer, then)
    bias = places.biases[layer, name]
    yield from _first_waits([_vector(Op.ADD, o + r * n, o + r * n, n, y=bias) for r in rows])


def _residual(toy: Toy, places: Places, rows: Sequence[int]) -> Iterator[Step]:
    w = toy.width
    x, y = ([at + r * w for r in rows] for at in (places.x, places.y))
    yield from _first_waits([_vector(Op.ADD, a, a, w, y=b) for a, b in zip(x, y, strict=True)])


def _attention(toy: Toy, places: Places, op: Opcodes, channel: int, layer: int, sub_batch: int) -> Iterator[Step]:
    for r in toy.rows[sub_batch]:
        if toy.channel(r) == channel:
            yield from _request(toy, places, op, layer, r)


def _request(toy: Toy, places: Places, op: Opcodes, layer: int, r: int) -> Iterator[Step]:
    """Key and value to the banks; scores; their softmax; sums of values."""
    shape, cache, tokens, w = places.shape, places.caches[layer, r], toy.tokens[r], toy.width
    query = places.qkv + r * 3 * w
    yield from _key(places, cache.row_k, tokens - 1, query + w, w)
    newest = places.newest[layer, r]
    yield _vector(MOVE, query + 2 * w, newest + (tokens - 1) % LANES, w, o_step=LANES)
    yield from _first_waits(list(_value(toy, places, cache.row_v, tokens - 1, newest)))
    vectors = [query + at for at in range(0, w, shape.row)]
    scores = [places.scores[r] + head * shape.row for head in range(toy.heads)]
    yield from _dots(op, logit(shape, tokens, cache.row_k, fused=True, exact=True), vectors, shape.row, scores)
    shares = [places.shares[r] + head * shape.row for head in range(toy.heads)]
    softmax = [_vector(Op.SOFTMAX, x, o, tokens) for x, o in zip(scores, shares, strict=True)]
    yield from _first_waits(softmax)
    out = [places.attended + r * w + head * toy.head_dim for head in range(toy.heads)]
    yield from _dots(op, attend(shape, tokens, cache.row_v, fused=True, exact=True), shares, shape.row, out)


def _write(bank: int, row: int, column: int, at: int, count: int, wait: bool = False) -> Step:
    where = {"bank": bank, "place": row * COLUMNS + column, "count": count, "x": at}
    return {"kind": int(ChannelKind.WRITE), "wait": int(wait), **where}


def _key(places: Places, row_k: int, token: int, at: int, width: int) -> Iterator[Step]:
    """Of a token: in one bank, a row for each chunk."""
    shape = places.shape
    chunks = range(0, width, shape.row)
    for c, begin in enumerate(chunks):
        row = row_k + token // shape.banks * len(chunks) + c
        yield _write(token % shape.banks, row, 0, at + begin, min(shape.row, width - begin) // LANES)


def _value(toy: Toy, places: Places, row_v: int, token: int, newest: int) -> Iterator[Step]:
    """Of a token: a word for each element, with those of the tokens beside it."""
    shape = places.shape
    tiles = shape.head_dim // shape.banks
    for d in range(toy.width):
        head, inside = divmod(d, shape.head_dim)
        row = row_v + head * tiles + inside // shape.banks
        yield _write(inside % shape.banks, row, token // LANES, newest + d * LANES, 1)


def _dots(op: Opcodes, stream: np.ndarray, vectors: Sequence[int], row: int, out: Sequence[int]) -> Iterator[Step]:
    """A stream's commands, each copy behind the write of its vector; results of a head one behind the other."""
    opcode = {COPY: op.gwrite, ANNOUNCE: op.header, GEMV: op.gemv}
    given, at = iter(vectors), list(out)
    for x in stream:
        kind, head = int(x["cmd"]), int(x["head"])
        dot = {name: int(x[name]) for name in ("bank", "row", "results", "last")}
        dot |= {"cmd": opcode[kind], "comps": int(x["comps"] if kind == ANNOUNCE else x["count"])}
        if kind == COPY:
            dot["row"] = VECTOR_ROW
            yield _write(0, VECTOR_ROW, 0, next(given), COLUMNS, wait=True)
        step: Step = {"kind": int(ChannelKind.DOT), "wait": int(kind == COPY), "dot": dot}
        if kind == GEMV:
            step["o"] = at[head]
            at[head] += LANES
        yield step
