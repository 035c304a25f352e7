"""An operator of a model: what it is, how large, what it waits for; and what follows from that."""

from typing import Literal, NamedTuple, get_args

import msgspec

from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.workload.batch import Request

Kind = Literal[
    "embedding", "gemm", "score", "softmax", "value", "norm", "activation", "multiply", "add", "rotary", "cache_write",
    "router", "all_reduce", "all_gather", "all_to_all", "send", "sampling",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)
LINKS = ("all_reduce", "all_gather", "all_to_all", "send")

# Operations on an element, or on a score, each function counted as one [design].
SOFTMAX = 5  # largest, difference, exponential, sum, quotient
NORM = {"layernorm": 7, "rmsnorm": 4}  # both: square, sum, factor, weight; mean, difference, bias
ROTARY = 3  # two products and a sum
SOFTCAP = 3  # quotient, tanh, product


class Bits(NamedTuple):
    """Size of an element of each class of operand [bits]."""

    weight: int = 16
    cache: int = 16
    activation: int = 16


class Moved(NamedTuple):
    """Elements that an operator reads and writes, each of its operands once."""

    weights: int = 0
    cache_read: int = 0
    read: int = 0
    cache_written: int = 0
    written: int = 0


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """One operator on one device, the same in each of its `layers`; none: it stands before or behind them all.

    name: of the module, as Hugging Face spells it for llama, with the fused matrices of phi3. after: names of the
    operators of the same layer that it waits for; none: all that stands before the layer. rows: vectors of `n_in`
    elements that go in, of `n_out` elements that come out. each: rows of every matrix where there are several, of
    experts or heads, those without rows left out. busy: matrices that have rows in the mean, where `each` is not
    known. terms: vectors that a sum adds, or that an activation multiplies. held: matrices, or vectors of parameters,
    that are kept for it; 0 if they are another operator's. alike: whether all tp devices hold the same. Attention:
    heads, kv_heads, head_dim; `attended`, `cached` as in `Batch`, from_cache: whether K or V come from the cache, or
    were computed, but for `shared` elements of a key, which all heads have in common; of the requests' contexts it
    sees `window`. weight_bits: of a weight with its part of a scale, None: as `bits` has it.
    """

    name: str
    kind: Kind
    layers: tuple[int, ...] = ()
    after: tuple[str, ...] = ()
    rows: int = 0
    n_in: int = 0
    n_out: int = 0
    each: tuple[int, ...] = ()
    busy: float = 0.0
    terms: int = 1
    held: int = 0
    biased: bool = False
    alike: bool = False
    function: str = ""
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    attended: int = 0
    cached: int = 0
    from_cache: bool = True
    shared: int = 0
    requests: tuple[Request, ...] = ()
    window: int | None = None
    devices: int = 1
    bits: Bits = Bits()
    weight_bits: float | None = None

    @property
    def times(self) -> int:
        """How often it runs in a step: once in each of its layers."""
        return len(self.layers) or 1

    @property
    def matrices(self) -> int:
        """Different matrices that are multiplied by, where it is known which."""
        return len(self.each) or int(self.rows > 0)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of matrix products, without biases."""
        match self.kind:
            case "gemm":
                return self.rows * self.n_in * self.n_out
            case "score" | "value":
                return self.heads * self.attended * self.head_dim
        return 0

    @property
    def flops(self) -> int:
        """Operations, two for each multiply-accumulate, one for each function of an element."""
        rows = self.rows
        match self.kind:
            case "gemm":
                return 2 * self.macs + self.biased * rows * self.n_out
            case "score" | "value":
                return 2 * self.macs
            case "softmax":
                return SOFTMAX * self.heads * self.attended + self.biased * self.heads * rows
            case "norm":
                return NORM[self.function] * rows * self.n_in
            case "activation":
                one = SOFTCAP if self.function == "softcap" else 1
                return (one + self.terms - 1) * rows * self.n_out
            case "add":
                weighted = self.terms if self.function == "weighted" else 0
                return (self.terms - 1 + weighted) * rows * self.n_out
            case "multiply":
                return rows * self.n_out
            case "rotary":
                return ROTARY * rows * self.n_out
            case "router":
                return (SOFTMAX + 1 + self.biased) * rows * self.n_in
            case "sampling":
                return rows * self.n_in
            case "all_reduce":
                return rows * self.n_out
        return 0

    @property
    def moved(self) -> Moved:
        """Elements that it reads and writes in one layer."""
        rows, vectors = self.rows, self.rows * self.n_out
        match self.kind:
            case "embedding":
                return Moved(weights=ceil_div(vectors, self.devices), written=vectors)  # the vocabulary is shared
            case "gemm":
                taken = self.cached * self.n_in  # vectors that come from the cache
                weights = round(self._matrix * (self.busy or self.matrices))
                return Moved(weights, taken, rows * self.n_in - taken, 0, vectors)
            case "score":
                k, q = self.cached * self.kv_heads * (self.head_dim - self.shared), rows * self.heads * self.head_dim
                scores, common = self.heads * self.attended, self.cached * self.shared
                return Moved(0, k + common, q, 0, scores) if self.from_cache else Moved(0, common, q + k, 0, scores)
            case "softmax":
                scores = self.heads * self.attended
                return Moved(weights=self._parameters, read=scores, written=scores)
            case "value":
                v, out = self.cached * self.kv_heads * self.head_dim, rows * self.heads * self.head_dim
                scores = self.heads * self.attended
                return Moved(0, v, scores, 0, out) if self.from_cache else Moved(0, 0, scores + v, 0, out)
            case "cache_write":
                return Moved(read=vectors, cache_written=vectors)
            case "norm":
                return Moved(weights=self._parameters, read=rows * self.n_in, written=rows * self.n_in)
            case "router":
                return Moved(weights=self._parameters, read=rows * self.n_in, written=vectors)
            case "sampling":
                return Moved(read=rows * self.n_in, written=rows)
        return Moved(read=self.terms * vectors, written=vectors)

    @property
    def _matrix(self) -> int:
        return self.n_in * self.n_out + self.biased * self.n_out

    @property
    def _parameters(self) -> int:
        match self.kind:
            case "gemm":
                return self.held * self._matrix
            case "embedding":
                return self.held * self.n_in * self.n_out
            case "norm":
                return self.held * self.n_in * (1 + self.biased)
            case "router":
                return self.held * self.n_in
        return self.held  # sinks of the softmax

    @property
    def parameters(self) -> int:
        """Elements of weights that a device keeps for it in one layer, used in this step or not."""
        return self._parameters if self.held else 0

    @property
    def bytes_read(self) -> int:
        """Bytes of weights, cache and activations that it reads in one layer."""
        of = self.moved
        return (
            _bytes(of.weights, self.bits.weight if self.weight_bits is None else self.weight_bits)
            + _bytes(of.cache_read, self.bits.cache)
            + _bytes(of.read, self.bits.activation)
        )

    @property
    def bytes_written(self) -> int:
        """Bytes of cache and activations that it writes in one layer."""
        return _bytes(self.moved.cache_written, self.bits.cache) + _bytes(self.moved.written, self.bits.activation)


def _bytes(elements: int, bits: int | float) -> int:
    return int(-(-(elements * bits) // BITS_PER_BYTE))
