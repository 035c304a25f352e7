"""Scenes of the ASIC's function units, which take and give streams, against `cycle_sim/asic_math.py`."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from amaranth.lib.wiring import Component

from pimloom.arch.asic import ADDERS
from pimloom.arch.part import Part
from pimloom.cycle_sim import asic_math as asic
from pimloom.rtl import bf16
from pimloom.rtl.asic.sum import TreeSum
from pimloom.rtl.blocks import LONGEST
from pimloom.rtl.flow.scenes.scene import Scene, stream_scene
from pimloom.rtl.flow.scenes.values import BF16, BF16_EDGES, vectors

TERMS = 40  # most of a sum of partials
Vectors = Sequence[np.ndarray]
Payloads = dict[str, np.ndarray]  # by port


# Numbers as bits.


def bits(x: np.ndarray) -> np.ndarray:
    """The bits of each bfloat16 or float32 of an array, as uint32."""
    return x.view(np.uint16 if x.dtype == BF16 else np.uint32).astype(np.uint32)


def flat(every: Vectors) -> np.ndarray:
    """The bits of all elements of the vectors in their order, uint32."""
    return bits(np.concatenate(every))


def ends(every: Vectors) -> np.ndarray:
    """1 for each vector's last element, else 0; of all vectors in their order, uint32."""
    return np.concatenate([np.arange(len(x)) == len(x) - 1 for x in every]).astype(np.uint32)


def words(*columns: np.ndarray) -> np.ndarray:
    """Payloads of which each column is a word, the lowest first."""
    return np.stack(columns, axis=-1).astype(np.uint32)


# What goes in, and what must come out.


def sums(every: Vectors, lanes: int, width: int = ADDERS) -> tuple[Payloads, Payloads]:
    """Payloads into and out of an adder tree that sums float32 vectors."""
    rows = [np.pad(x, (0, -len(x) % lanes)).reshape(-1, lanes) for x in every]
    total = np.array([asic.tree_sum(x, width) for x in every])
    return {"i": words(*flat(rows).T, ends(rows))}, {"o": bits(total)}


def partials(every: Vectors) -> tuple[Payloads, Payloads]:
    """Of bfloat16 vectors, whose last element is the bias."""
    total = [asic.accumulate_partials_bf16(x[:-1, None], x[-1:]) for x in every]
    return {"i": words(flat(every) | ends(every) << bf16.WIDTH)}, {"o": flat(total)}


def softmax(every: Vectors) -> tuple[Payloads, Payloads]:
    """Payloads into and out of the softmax of bfloat16 vectors."""
    last = ends(every) << bf16.WIDTH
    return {"i": words(flat(every) | last)}, {"o": flat([asic.softmax_bf16(x) for x in every]) | last}


def layernorm(every: Vectors, rng: np.random.Generator) -> tuple[Payloads, Payloads]:
    """Of bfloat16 vectors, with random gamma and beta."""
    last = ends(every) << bf16.WIDTH
    gamma, beta = ([rng.normal(1, 2, len(x)).astype(BF16) for x in every] for _ in range(2))
    normal = [asic.layernorm_bf16(*each) for each in zip(every, gamma, beta, strict=True)]
    inverse_n = np.array([1 / len(x) for x in every], np.float32)
    given = {"i": words(flat(every) | last), "affine": words(flat(gamma) | flat(beta) << bf16.WIDTH)}
    return given | {"inverse_n": words(bits(inverse_n))}, {"o": flat(normal) | last}


def rmsnorm(every: Vectors, rng: np.random.Generator) -> tuple[Payloads, Payloads]:
    """Of bfloat16 vectors, with random gamma."""
    last = ends(every) << bf16.WIDTH
    gamma = [rng.normal(1, 2, len(x)).astype(BF16) for x in every]
    normal = [asic.rmsnorm_bf16(*each) for each in zip(every, gamma, strict=True)]
    inverse_n = np.array([1 / len(x) for x in every], np.float32)
    given = {"i": words(flat(every) | last), "gamma": words(flat(gamma)), "inverse_n": words(bits(inverse_n))}
    return given, {"o": flat(normal) | last}


# Scenes of n elements.


def _unary_scene(name: str, unit: Component, part: Part, rng: np.random.Generator, n: int) -> Scene:
    """Edges, then all bfloat16 in random order, then again."""
    x = np.resize(np.concatenate([BF16_EDGES, rng.permutation(2**16).astype(np.uint16)]), n)
    y = getattr(asic, f"{name}_bf16")(x.view(BF16))
    return stream_scene({"i": words(x)}, {"o": bits(y)}, n, lambda port, i: f"{name}({x[i]:#x})")


def _sum_scene(unit: TreeSum, part: Part, rng: np.random.Generator, n: int) -> Scene:
    every = vectors(rng, n, LONGEST)
    return stream_scene(*sums(every, unit.lanes), n, lambda port, i: f"sum {i}, of {len(every[i])} elements,")


def _partials_scene(unit: Component, part: Part, rng: np.random.Generator, n: int) -> Scene:
    every = _narrow(vectors(rng, n, TERMS))
    return stream_scene(*partials(every), n, lambda port, i: f"sum {i}, of {len(every[i])} terms,")


def _softmax_scene(unit: Component, part: Part, rng: np.random.Generator, n: int) -> Scene:
    every = _narrow(vectors(rng, n, LONGEST))
    return stream_scene(*softmax(every), n, partial(_element, every))


def _layernorm_scene(unit: Component, part: Part, rng: np.random.Generator, n: int) -> Scene:
    every = _narrow(vectors(rng, n, LONGEST))
    return stream_scene(*layernorm(every, rng), n, partial(_element, every))


def _rmsnorm_scene(unit: Component, part: Part, rng: np.random.Generator, n: int) -> Scene:
    every = _narrow(vectors(rng, n, LONGEST))
    return stream_scene(*rmsnorm(every, rng), n, partial(_element, every))


@np.errstate(invalid="ignore")
def _narrow(every: Vectors) -> list[np.ndarray]:
    return [x.astype(BF16) for x in every]


def _element(every: Vectors, port: str, i: int) -> str:
    """Element i of all vectors in a row."""
    firsts = np.cumsum([0, *map(len, every)])
    vector = int(np.searchsorted(firsts, i, "right")) - 1
    return f"element {i - firsts[vector]} of vector {vector}, of {len(every[vector])},"


SCENES: dict[str, Callable[..., Scene]] = {  # of the block, the part, a generator and how many operations
    **{f"asic_{name}": partial(_unary_scene, name) for name in ("exp", "reciprocal", "rsqrt", "gelu", "silu")},
    "asic_sum": _sum_scene,
    "asic_partials": _partials_scene,
    "asic_softmax": _softmax_scene,
    "asic_layernorm": _layernorm_scene,
    "asic_rmsnorm": _rmsnorm_scene,
}
