"""Fine-tuning with adapters, token by token: what a sequence computes, and what it keeps until its gradients are made.

Weights are frozen. Forward, then backward in pieces of tokens, the last ones first: each token takes the products of a
forward step once more, for gradients of activations; the adapters' own are left out, as they are of a few ranks.
"""

from typing import NamedTuple

from pimloom.arch.llm import LlmSpec
from pimloom.arch.units import BITS_PER_BYTE
from pimloom.workload.need import parameters

ATTENTION = 2.5  # of the backward pass over the forward one [recalled: FlashAttention-2 counts five products for two]
BITS = 16  # [design] of activations, as of weights
STATE_BYTES = 16  # of an adapter's weight: in FP16 and FP32, its gradient, two moments [recalled: mixed-precision Adam]


class Step(NamedTuple):
    """New tokens of a sequence behind those before them; backward: whether their gradients are made."""

    new: int
    cached: int
    backward: bool


class Job:
    """Sequences of `length` tokens, one after the other. tokens: whose forward and backward steps have been made."""

    def __init__(self, length: int) -> None:
        self.length, self.at, self.back, self.tokens, self.sequences = length, 0, False, 0, 0

    def next(self, most: int) -> Step:
        """The next step, of so many tokens at most.

        >>> job = Job(5)
        >>> [job.took(job.next(3)) for _ in range(4)]
        [Step(new=3, cached=0, backward=False), Step(new=2, cached=3, backward=False), \
Step(new=3, cached=2, backward=True), Step(new=2, cached=0, backward=True)]
        """
        if self.back:
            new = min(most, self.at)
            return Step(new, self.at - new, True)
        return Step(min(most, self.length - self.at), self.at, False)

    def took(self, step: Step) -> Step:
        """It has been made."""
        if step.backward:
            self.at, self.tokens = step.cached, self.tokens + step.new
            self.back = self.at > 0
            self.sequences += not self.back
        else:
            self.at += step.new
            self.back = self.at == self.length
        return step


class Kept(NamedTuple):
    """Elements that a token keeps in a layer until its backward step: of a graph as it is, with the scores of its
    attention; and of one from which all goes that frozen weights do not need."""

    whole: int
    pruned: int


def kept(llm: LlmSpec, length: int) -> Kept:
    """Of a dense layer. Whole: inputs of two norms and of all products, queries, keys and values, scores and
    probabilities over the sequence, and both inputs of the gate. Pruned: inputs of the norms, queries, keys, values and
    the result of attention (its scores are made again), and both inputs of the gate, from which the adapter's input,
    that of the last product, is made again.

    >>> from pimloom.arch.llm import load_llm
    >>> kept(load_llm("llama-3-8b"), 1024)
    Kept(whole=135168, pruned=47104)
    """
    d, f = llm.hidden_size, llm.intermediate_size
    heads, pairs = llm.num_attention_heads * llm.head_dim, 2 * llm.num_key_value_heads * llm.head_dim
    gates = (2 if llm.gated_ffn else 1) * f
    whole = 4 * d + heads + pairs + heads + gates + f + 2 * llm.num_attention_heads * length
    return Kept(whole, 2 * d + heads + pairs + heads + gates)


def adapter_bytes(llm: LlmSpec, rank: int) -> int:
    """Of two matrices beside the last product of each layer, with what training keeps of them."""
    return llm.num_hidden_layers * rank * (llm.hidden_size + llm.intermediate_size) * STATE_BYTES


def activation_bytes(llm: LlmSpec, length: int, *, pruned: bool = True) -> int:
    """Of a sequence in all layers."""
    of = kept(llm, length)
    return llm.num_hidden_layers * length * (of.pruned if pruned else of.whole) * BITS // BITS_PER_BYTE


def total_ratio(llm: LlmSpec, length: int, rank: int) -> float:
    """Memory of weights, adapters and pruned activations over that with whole ones."""
    weights = parameters(llm) * BITS // BITS_PER_BYTE + adapter_bytes(llm, rank)
    return (weights + activation_bytes(llm, length)) / (weights + activation_bytes(llm, length, pruned=False))
