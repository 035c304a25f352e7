"""Random vectors through the vector unit, against `cycle_sim/asic_math.py`."""

import numpy as np

from pimloom.cycle_sim import asic_math as asic
from pimloom.rtl import bf16
from pimloom.rtl.blocks import LONGEST
from pimloom.rtl.flow.scenes.functions import bits, ends, flat, words
from pimloom.rtl.flow.scenes.scene import Scene, stream_scene
from pimloom.rtl.flow.scenes.values import BF16, vectors
from pimloom.rtl.npu.vector import Op, VectorUnit

SHORT = 12  # vectors of one operation at most, before another


def vector_scene(unit: VectorUnit, part: object, rng: np.random.Generator, n: int) -> Scene:
    """n elements: a few vectors of an operation, then some of another."""
    with np.errstate(invalid="ignore"):
        every = [x.astype(BF16) for x in vectors(rng, n, min(LONGEST, 200))]
    others = [rng.normal(size=len(x)).astype(BF16) for x in every]
    runs = np.repeat(rng.integers(0, len(Op), len(every)), rng.integers(1, SHORT, len(every)))
    ops = [Op(op) for op in runs[: len(every)].tolist()]
    gains = [(rng.normal(1, 2, len(x)).astype(BF16), rng.normal(1, 2, len(x)).astype(BF16)) for x in every]
    made = [_made(*each) for each in zip(ops, every, others, gains, strict=True)]
    wide = np.concatenate([np.full(len(x), op) for op, x in zip(ops, every, strict=True)])
    last = ends(every)
    given = words(flat(every) | flat(others) << bf16.WIDTH, last | wide << 1)
    normal = [i for i, op in enumerate(ops) if op == Op.NORM]
    sources = {"i": given}
    if normal:
        gamma, beta = (flat([gains[i][which] for i in normal]) for which in range(2))
        sources["affine"] = words(gamma | beta << bf16.WIDTH)
        sources["inverse_n"] = words(bits(np.array([1 / len(every[i]) for i in normal], np.float32)))
    firsts = np.cumsum([0, *map(len, every)])

    def place(port: str, i: int) -> str:
        vector = int(np.searchsorted(firsts, i, "right")) - 1
        return f"element {i - firsts[vector]} of vector {vector}, {ops[vector].name} of {len(every[vector])},"

    return stream_scene(sources, {"o": flat(made) | last << bf16.WIDTH}, n, place)


def _made(op: Op, x: np.ndarray, y: np.ndarray, gains: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """bfloat16 of a vector."""
    if op is Op.ADD:
        return asic.to_bf16(asic.add(asic.settle(x.astype(np.float32)), asic.settle(y.astype(np.float32))))
    if op is Op.GELU:
        return asic.gelu_bf16(x)
    return asic.softmax_bf16(x) if op is Op.SOFTMAX else asic.layernorm_bf16(x, *gains)
