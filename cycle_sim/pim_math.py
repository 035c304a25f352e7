"""The MAC unit of one bank, bit for bit: 16 multipliers, an adder tree 16 to 1, one accumulator.

The unit is AiM's (pim_gpt.md 2.1) but for the accumulator: AiM's has 16 bits [secondary]; ours is float32 and
rounds to bfloat16 when it is read [design], since bfloat16 would lose a small product against a long sum.
`accumulator="bf16"` models the narrow one. The number rules are those of `asic_math`; under them the product
of two bfloat16 is exact, or below 2**-126 and zero.
"""

from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from pimloom.cycle_sim.asic_math import Array, add, mul, pairwise, settle, to_bf16

LANES = 16

Accumulator: TypeAlias = Literal["float32", "bf16"]


def column_sum(weights: ArrayLike, inputs: ArrayLike) -> Array:
    """Multipliers and tree: bfloat16[..., 16] and inputs bfloat16[16] (or broadcast) to float32[...].

    At each of the four levels 2i and 2i+1 meet. Error at most 4 * 2**-24 * sum(abs(products)) to first order,
    plus 2**-126 for each of the 31 operations that may flush.
    """
    weights, inputs = np.asarray(weights), np.asarray(inputs)
    for name, operand in (("weights", weights), ("inputs", inputs)):
        if operand.shape[-1:] != (LANES,):
            raise ValueError(f"{name} must end in {LANES} lanes, not have shape {operand.shape}")
    return pairwise(mul(_widen(weights), _widen(inputs)))


def mac_column(acc: ArrayLike, weights: ArrayLike, inputs: ArrayLike, accumulator: Accumulator = "float32") -> Array:
    """One MAC command: acc[...] + `column_sum` of weights[..., 16] and inputs[16], as float32[...].

    One more rounding than `column_sum`; with the bf16 accumulator a second one, to bfloat16 (2**-8 relative).
    """
    return _accumulate(settle(np.asarray(acc, np.float32)), column_sum(weights, inputs), accumulator)


def mac_columns(acc: ArrayLike, weights: ArrayLike, inputs: ArrayLike, accumulator: Accumulator = "float32") -> Array:
    """`mac_column` for one column after the other: acc[...], weights[..., n, 16], inputs[n, 16] (or broadcast)."""
    acc, weights, inputs = np.asarray(acc, np.float32), np.asarray(weights), np.asarray(inputs)
    if plain := _plain(acc, weights, inputs):
        columns = _tree(weights.astype(np.float32) * inputs.astype(np.float32))
    else:
        acc, columns = settle(acc), column_sum(weights, inputs)
    for i in range(columns.shape[-1]):
        acc = _accumulate(acc, columns[..., i], accumulator, plain)
    return acc


def gemv_bank(weights: ArrayLike, inputs: ArrayLike, accumulator: Accumulator = "float32") -> Array:
    """Each bank's dot product: bfloat16[banks, n] and inputs bfloat16[n] to the accumulators, float32[banks].

    The same as `mac_column` over columns 0, 1, ... from acc = +0; the last column is filled up with +0.
    Error at most (4 + ceil(n / 16)) * 2**-24 * sum(abs(products)) to first order, if float32.
    """
    weights, inputs = np.asarray(weights), np.asarray(inputs)
    if weights.shape[-1:] != inputs.shape:
        raise ValueError(f"inputs must be as long as the rows of weights {weights.shape}, not {inputs.shape}")
    return mac_columns(np.zeros(weights.shape[:-1], np.float32), _columns(weights), _columns(inputs), accumulator)


def read_result(acc: ArrayLike) -> Array:
    """The result register: accumulators float32[...] rounded once to bfloat16[...]."""
    return to_bf16(acc)


def _plain(acc: Array, weights: Array, inputs: Array) -> bool:
    """Whether float32 as it is keeps the number rules: no factor is below 2**-50 but 0, and none above 2**50.

    Products are then exact and, as acc, multiples of 2**-123; so are all sums: none is below 2**-126 but 0.
    """
    shaped = weights.shape[-1:] == inputs.shape[-1:] == (LANES,) and weights.dtype == inputs.dtype == ml_dtypes.bfloat16
    return shaped and _within(weights, 50) and _within(inputs, 50) and _within(acc, 100)


def _within(x: Array, powers: int) -> bool:
    """Whether all that is not 0 has a size from 2**-powers to 2**powers."""
    size: Any = np.atleast_1d(x).view(f"u{x.itemsize}") << 1  # without the sign, sizes are in the order of their bits
    exponent = 8 * x.itemsize - 8  # its first bit
    least, most = (127 - powers) << exponent, (127 + powers) << exponent
    return bool(size.max(initial=0) <= most and (size - 1).min(initial=most) >= least - 1)  # 0 - 1 is the largest


def _tree(x: Array) -> Array:
    """`pairwise` of what is plain."""
    while x.shape[-1] > 1:
        x = x[..., 0::2] + x[..., 1::2]
    return x[..., 0]


def _accumulate(acc: Array, column: Array, accumulator: Accumulator, plain: bool = False) -> Array:
    if accumulator not in ("float32", "bf16"):
        raise ValueError(f"accumulator must be 'float32' or 'bf16', not {accumulator!r}")
    total: Array = acc + column if plain else add(acc, column)
    if accumulator == "float32":
        return total
    return total.astype(ml_dtypes.bfloat16).astype(np.float32) if plain else _widen(total)


def _widen(x: ArrayLike) -> Array:
    return to_bf16(x).astype(np.float32)


def _columns(x: Array) -> Array:
    padding = -x.shape[-1] % LANES
    padded = np.concatenate([x, np.zeros((*x.shape[:-1], padding), x.dtype)], axis=-1)
    return padded.reshape(*x.shape[:-1], -1, LANES)
