"""What one of the devices that share a model holds of it."""

from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.near import next_to
from pimloom.arch.units import ceil_div


class Shard(NamedTuple):
    """One of `tp` x `pp` x `ep` devices.

    tp devices share each matrix and each head's work (Megatron's columns and rows); pp groups have some layers each,
    this one the layers of `stage`; ep groups serve different requests, and each holds a part of the experts, this one
    that of `rank`.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    stage: int = 0
    rank: int = 0


class Cut(NamedTuple):
    """What is left to a device: query heads, heads of K and V, columns of the FFN and of an expert, words.

    What does not come out even is padded.
    """

    heads: int
    kv_heads: int
    ffn: int
    expert_ffn: int
    vocabulary: int


def cut(llm: LlmSpec, tp: int) -> Cut:
    """The model cut for `tp` devices. Fewer heads of K and V than devices are held several times.

    Raises UserError: tp divides neither.
    """
    heads, kv_heads = llm.num_attention_heads, llm.num_key_value_heads
    if tp < 1 or heads % tp or (kv_heads % tp and tp % kv_heads):
        fit = (n for n in range(1, heads + 1) if not heads % n and (not kv_heads % n or not n % kv_heads))
        said = f"expected a divisor of the {heads} heads ({kv_heads} of keys) of {llm.name}"
        raise UserError(f"--tp {tp}: {said}; nearest: {next_to(tp, fit)}")
    ffn, expert = llm.intermediate_size, llm.expert_intermediate_size
    return Cut(
        heads // tp, max(kv_heads // tp, 1), ceil_div(ffn, tp), ceil_div(expert, tp), ceil_div(llm.vocab_size, tp)
    )


def layers_of(llm: LlmSpec, shard: Shard) -> range:
    """The layers of a pipeline stage, as even as can be; the first stages have the more. Raises UserError."""
    layers, pp = llm.num_hidden_layers, shard.pp
    if not 1 <= pp <= layers:
        raise UserError(f"--pp {pp}: expected 1 to {layers}, the layers of {llm.name}")
    if not 0 <= shard.stage < pp:
        raise UserError(f"stage {shard.stage}: expected 0 to {pp - 1}, one of --pp {pp}")
    first = shard.stage * (layers // pp) + min(shard.stage, layers % pp)
    return range(first, first + layers // pp + (shard.stage < layers % pp))


def check_experts(llm: LlmSpec, shard: Shard) -> None:
    """Raise UserError unless the experts come out even over `ep` groups."""
    if shard.ep < 1 or llm.num_experts % shard.ep:
        raise UserError(f"--ep {shard.ep}: expected a divisor of the {llm.num_experts} experts of {llm.name}")
    if not 0 <= shard.rank < shard.ep:
        raise UserError(f"rank {shard.rank}: expected 0 to {shard.ep - 1}, one of --ep {shard.ep}")
