"""A toy decoder in bfloat16, its sub-batches, and what a token of it should be: each number as the gates make it.

LayerNorm, attention with biases, residual, LayerNorm, FFN with GELU, residual, as in GPT-2. Queries come out of their
matrix divided by the root of `head_dim`, which is in its weights and biases.
"""

from typing import Any, NamedTuple

import numpy as np

from pimloom.cycle_sim import asic_math as asic
from pimloom.rtl.flow.npu.gemm import Job, product
from pimloom.rtl.flow.scenes.values import BF16
from pimloom.rtl.npu.shape import ArrayShape

Array = np.ndarray
MATRICES = ("qkv", "out", "up", "down")


class Toy(NamedTuple):
    """contexts: of each sub-batch, of each request, the tokens of it, with the new one; channel: of each request, in
    the same order."""

    width: int = 16
    heads: int = 2
    inner: int = 32
    layers: int = 1
    contexts: tuple[tuple[int, ...], ...] = ((5, 9, 3), (12, 1, 8))
    channels: int = 2

    @property
    def head_dim(self) -> int:
        """Elements of a head."""
        return self.width // self.heads

    @property
    def rows(self) -> list[range]:
        """Of each sub-batch its rows among all requests."""
        ends = np.cumsum([len(each) for each in self.contexts]).tolist()
        return [range(end - len(each), end) for end, each in zip(ends, self.contexts, strict=True)]

    @property
    def tokens(self) -> list[int]:
        """Of each request."""
        return [tokens for each in self.contexts for tokens in each]

    def channel(self, request: int) -> int:
        """Where the request's keys and values lie: dealt out in turn."""
        return request % self.channels

    def matrix(self, name: str) -> tuple[int, int]:
        """Inputs and outputs of a matrix."""
        w, i = self.width, self.inner
        return {"qkv": (w, 3 * w), "out": (w, w), "up": (w, i), "down": (i, w)}[name]


class Layer(NamedTuple):
    """bfloat16. matrices: [n_in, n_out]; norms: gamma and beta; keys, values: of each request [tokens - 1, width]."""

    matrices: dict[str, Array]
    biases: dict[str, Array]
    norms: dict[str, tuple[Array, Array]]
    keys: list[Array]
    values: list[Array]


class Numbers(NamedTuple):
    """x: bfloat16[requests, width], what comes in."""

    x: Array
    layers: list[Layer]


def draw_numbers(toy: Toy, seed: int) -> Numbers:
    """Weights and states of the usual size."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 1.0, middle: float = 0.0) -> Array:
        return rng.normal(middle, scale, shape).astype(BF16)

    def layer() -> Layer:
        matrices = {name: normal(*toy.matrix(name), scale=toy.matrix(name)[0] ** -0.5) for name in MATRICES}
        biases = {name: normal(toy.matrix(name)[1], scale=0.1) for name in MATRICES}
        for each in (matrices, biases):
            scaled = each["qkv"].astype(np.float32)
            scaled[..., : toy.width] *= toy.head_dim**-0.5
            each["qkv"] = scaled.astype(BF16)
        gains = {name: (normal(toy.width, scale=0.1, middle=1), normal(toy.width, scale=0.1)) for name in ("1", "2")}
        past = [[normal(tokens - 1, toy.width) for tokens in toy.tokens] for _ in range(2)]
        return Layer(matrices, biases, gains, *past)

    return Numbers(normal(len(toy.tokens), toy.width), [layer() for _ in range(toy.layers)])


class Made(NamedTuple):
    """What a layer makes of all requests, bfloat16: [requests, 3 width], [requests, width] twice."""

    qkv: Array
    attended: Array
    x: Array


def decode(toy: Toy, numbers: Numbers, lanes: int) -> list[Made]:
    """All layers, in the order of sums of an array of `lanes` rows and of PIM units with as many lanes."""
    x, found = numbers.x, list[Made]()
    for layer in numbers.layers:
        h = asic.layernorm_bf16(x, *layer.norms["1"])
        qkv = _matrix(layer, "qkv", h, lanes)
        attended = np.stack([_attend(toy, layer, r, row, lanes) for r, row in enumerate(qkv)])
        x = _plus(x, _matrix(layer, "out", attended, lanes))
        h = asic.layernorm_bf16(x, *layer.norms["2"])
        inner = asic.gelu_bf16(_matrix(layer, "up", h, lanes))
        x = _plus(x, _matrix(layer, "down", inner, lanes))
        found.append(Made(qkv, attended, x))
    return found


def _matrix(layer: Layer, name: str, x: Array, lanes: int) -> Array:
    """Product, rounded, then the bias, rounded."""
    total = product(ArrayShape(lanes, lanes, "ws"), Job(x, layer.matrices[name], overlapped=True))
    return _plus(asic.to_bf16(total), layer.biases[name])


def _plus(a: Array, b: Array) -> Array:
    return asic.to_bf16(asic.add(_wide(a), _wide(b)))


def _wide(x: Array) -> Array:
    return asic.settle(x.astype(np.float32))


def _attend(toy: Toy, layer: Layer, request: int, qkv: Array, lanes: int) -> Array:
    """bfloat16[width] of one request's query over its keys and values."""
    query, key, value = np.split(qkv, 3)
    keys, values = (np.vstack(pair) for pair in ((layer.keys[request], key), (layer.values[request], value)))
    found = []
    for head in range(toy.heads):
        mine = slice(head * toy.head_dim, (head + 1) * toy.head_dim)
        scores = asic.softmax_bf16(dots(keys[:, mine], query[mine], lanes))
        found.append(dots(values[:, mine].T, scores, lanes))
    return np.concatenate(found)


def dots(rows: Array, vector: Array, lanes: int) -> Array:
    """bfloat16[n] of rows[n, k] with vector[k] on PIM units: `lanes` products at once, an adder tree, a float32 sum;
    what is left of the last `lanes` is +0."""
    spare = -len(vector) % lanes
    rows, vector = np.pad(_wide(rows), ((0, 0), (0, spare))), np.pad(_wide(vector), (0, spare))
    total = np.zeros(len(rows), np.float32)
    for at in range(0, len(vector), lanes):
        total = asic.add(total, asic.pairwise(asic.mul(rows[:, at : at + lanes], vector[at : at + lanes])))
    return asic.to_bf16(total)


def in_float64(toy: Toy, numbers: Numbers) -> Array:
    """The same layers as mathematics has them: float64[requests, width]."""
    x: Any = numbers.x.astype(float)
    for layer in numbers.layers:
        weights = {name: matrix.astype(float) for name, matrix in layer.matrices.items()}
        biases = {name: bias.astype(float) for name, bias in layer.biases.items()}
        qkv = _norm(x, layer, "1") @ weights["qkv"] + biases["qkv"]
        attended = np.zeros_like(x)
        for r, row in enumerate(qkv):
            query, key, value = np.split(row, 3)
            keys, values = np.vstack([layer.keys[r], key]), np.vstack([layer.values[r], value])
            for head in np.split(np.arange(toy.width), toy.heads):
                scores = np.exp(keys[:, head] @ query[head])
                attended[r, head] = scores / scores.sum() @ values[:, head]
        x = x + attended @ weights["out"] + biases["out"]
        inner = _norm(x, layer, "2") @ weights["up"] + biases["up"]
        gelu = inner / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = x + gelu @ weights["down"] + biases["down"]
    return x


def _norm(x: Array, layer: Layer, which: str) -> Array:
    gamma, beta = (gain.astype(float) for gain in layer.norms[which])
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * gamma + beta
