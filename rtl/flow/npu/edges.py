"""What the edges of a systolic array are given clock by clock, and what leaves it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from amaranth.lib.data import StructLayout

from pimloom.rtl.flow.npu.gemm import Job, Tile, bits, last_leaves, sums, tiles
from pimloom.rtl.npu.shape import ArrayShape, activation, weight

Lanes = dict[str, np.ndarray]  # by field: uint32[clocks, lanes]


class Edges(NamedTuple):
    """left, top: fields of what enters. valid, x: of each column, what leaves in each clock; x counts where valid.
    origin: the job of it. ends: of each job, the clock after the last of its results."""

    left: Lanes
    top: Lanes
    valid: np.ndarray
    x: np.ndarray
    origin: np.ndarray
    ends: list[int]


def edges(shape: ArrayShape, jobs: Sequence[Job]) -> Edges:
    """Jobs one after the other, each in the clock after the last result of the one before has left."""
    plans, ends, at = [], list[int](), 0
    for job in jobs:
        plan = tiles(shape, job)
        plans.append([tile._replace(start=tile.start + at) for tile in plan])
        at = max(last_leaves(shape, tile, _streamed(shape, job)) for tile in plans[-1]) + 1
        ends.append(at)
    left, top = _lanes(activation(shape.dataflow), at, shape.rows), _lanes(weight(shape), at, shape.columns)
    valid, x = np.zeros((at, shape.columns), bool), np.zeros((at, shape.columns), np.uint32)
    origin = np.zeros((at, shape.columns), np.int64)
    enter, leave = (_enter_ws, _leave_ws) if shape.dataflow == "ws" else (_enter_os, _leave_os)
    for number, (job, plan) in enumerate(zip(jobs, plans, strict=True)):
        for tile in plan:
            enter(shape, job, tile, left, top)
            clock, column, value = leave(shape, job, tile)
            assert not valid[clock, column].any()
            valid[clock, column], x[clock, column], origin[clock, column] = True, value.view(np.uint32), number
    return Edges(left, top, valid, x, origin, ends)


def _streamed(shape: ArrayShape, job: Job) -> int:
    m, k, _ = job.size
    return m if shape.dataflow == "ws" else k


def _lanes(layout: StructLayout, clocks: int, lanes: int) -> Lanes:
    return {name: np.zeros((clocks, lanes), np.uint32) for name, _ in layout}


def _put(lanes: Lanes, clock: np.ndarray, lane: np.ndarray, **fields: np.ndarray | int) -> None:
    assert not lanes["valid"][clock, lane].any()
    for name, value in (fields | {"valid": 1}).items():
        lanes[name][clock, lane] = value


def _enter_ws(shape: ArrayShape, job: Job, tile: Tile, left: Lanes, top: Lanes) -> None:
    r, j = np.meshgrid(np.arange(tile.rows), np.arange(tile.columns), indexing="ij")
    weights = bits(job.b)[tile.row + r, tile.column + j]
    _put(top, tile.start - 1 - r + j, j, x=weights, fall=r)  # the lowest row first
    m, i = np.meshgrid(np.arange(len(job.a)), np.arange(tile.rows), indexing="ij")
    _put(left, tile.start + m + i, i, x=bits(job.a)[m, tile.row + i], first=m == 0)


def _leave_ws(shape: ArrayShape, job: Job, tile: Tile) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clock, column, value of each result."""
    rows, columns = slice(tile.row, tile.row + tile.rows), slice(tile.column, tile.column + tile.columns)
    m, j = np.meshgrid(np.arange(len(job.a)), np.arange(tile.columns), indexing="ij")
    return tile.start + m + shape.rows - 1 + j, j, sums(job.a[:, rows], job.b[rows, columns])


def _enter_os(shape: ArrayShape, job: Job, tile: Tile, left: Lanes, top: Lanes) -> None:
    k, i = np.meshgrid(np.arange(len(job.b)), np.arange(tile.rows), indexing="ij")
    last, lowest = k == len(job.b) - 1, i == tile.rows - 1
    _put(left, tile.start + k + i, i, x=bits(job.a)[tile.row + i, k], last=last, lowest=lowest)
    k, j = np.meshgrid(np.arange(len(job.b)), np.arange(tile.columns), indexing="ij")
    _put(top, tile.start + k + j, j, x=bits(job.b)[k, tile.column + j])


def _leave_os(shape: ArrayShape, job: Job, tile: Tile) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = slice(tile.row, tile.row + tile.rows), slice(tile.column, tile.column + tile.columns)
    i, j = np.meshgrid(np.arange(tile.rows), np.arange(tile.columns), indexing="ij")
    complete = tile.start + len(job.b) - 1 + tile.rows - 1 + j  # the lowest row's
    return complete + shape.rows - i, j, sums(job.a[rows], job.b[:, columns])


def pack(layout: StructLayout, lanes: Lanes) -> np.ndarray:
    """uint32[clocks, words] of an array of `layout`, lane 0 lowest."""
    columns = [_bits_of(lanes[name], field.width) for name, field in layout]
    return _words(np.concatenate(columns, axis=-1).reshape(len(lanes["valid"]), -1))


def pack_words(x: np.ndarray, last: np.ndarray) -> np.ndarray:
    """uint32[n, words] of uint16[n, lanes], lane 0 lowest, and a bit above them."""
    return _words(np.concatenate([_bits_of(x, 16).reshape(len(x), -1), last[:, None]], axis=1))


def _bits_of(x: np.ndarray, width: int) -> np.ndarray:
    """The lowest bit first, in one more dimension."""
    return x.astype(np.uint32)[..., None] >> np.arange(width, dtype=np.uint32) & 1


def _words(flat: np.ndarray) -> np.ndarray:
    padded = np.pad(flat.astype(np.uint8), ((0, 0), (0, -flat.shape[1] % 32)))
    return np.packbits(padded, axis=1, bitorder="little").view("<u4")


def unpack(words: np.ndarray, widths: Sequence[int], lanes: int) -> list[np.ndarray]:
    """The fields of those widths, the lowest first, of each lane: uint32[clocks, lanes]."""
    flat = np.unpackbits(np.ascontiguousarray(words, "<u4").view(np.uint8), axis=1, bitorder="little")
    flat = flat[:, : lanes * sum(widths)].reshape(len(words), lanes, -1)
    found, at = [], 0
    for width in widths:
        weights = np.uint64(1) << np.arange(width, dtype=np.uint64)
        found.append((flat[..., at : at + width] * weights).sum(axis=-1, dtype=np.uint64).astype(np.uint32))
        at += width
    return found
