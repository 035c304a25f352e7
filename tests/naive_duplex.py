"""A decode step of Duplex's systems with an ideal memory, written out from the words of the specification."""

from collections.abc import Sequence
from typing import Any

PINS, NVLINK, LATENCY, NETWORK, NETWORK_LATENCY = 3.352e12, 450e9, 0.8e-6, 50e9, 2.7e-6
RATE = {"xpu": 989.4e12, "logic": 5 * 32 * 512 * 2 * 650e6, "bank": 16 * PINS}
TIMES = {"xpu": 1, "logic": 4, "bank": 16}
COLUMN_PJ = {"xpu": 891, "logic": 464, "bank": 187}


class Sum:
    """Seconds of a device, and energy [pJ] and MACs of what it does."""

    def __init__(self) -> None:
        self.s, self.pj, self.macs = 0.0, 0.0, 0.0

    def matrix(self, where: str, rows: int, n_in: int, n_out: int) -> None:
        """FP16: input and output by the pins, weights by the processor's own way; 32 bytes a column, 1 KB a row."""
        pins, own, macs = 2 * rows * (n_in + n_out), 2 * n_in * n_out, rows * n_in * n_out
        self.s += max(pins / PINS + own / (TIMES[where] * PINS), 2 * macs / RATE[where])
        self.pj += pins / 32 * 891 + own / 32 * COLUMN_PJ[where] + (pins + own) / 1024 * 909 + 0.46 * macs
        self.macs += macs

    def vectors(self, elements: int) -> None:
        """So many elements in or out, without arithmetic that counts."""
        self.s += 2 * elements / PINS
        self.pj += 2 * elements / 32 * 891 + 2 * elements / 1024 * 909

    def cache(self, where: str, contexts: int, heads: int, kv_heads: int, width: int) -> None:
        for _ in ("K", "V"):
            size, macs = 2 * contexts * kv_heads * width, contexts * heads * width
            self.s += max(size / (TIMES[where] * PINS), 2 * macs / RATE[where])
            self.pj += size / 32 * COLUMN_PJ[where] + size / 1024 * 909 + 0.46 * macs
            self.macs += macs

    def add(self, other: "Sum", devices: float, seconds: float | None = None) -> None:
        self.s += other.s if seconds is None else seconds
        self.pj, self.macs = self.pj + devices * other.pj, self.macs + devices * other.macs


def ffn(where: str, rows: int, hidden: int, width: int, gated: bool) -> Sum:
    found = Sum()
    if rows:
        for _ in range(1 + gated):
            found.matrix(where, rows, hidden, width)
        found.vectors((1 + gated) * rows * width)
        found.vectors(rows * width)
        found.matrix(where, rows, width, hidden)
    return found


def shorter(found: Sequence[Sum]) -> Sum:
    return min(found, key=lambda one: one.s)


def all_reduce_s(size: float, n: int) -> float:
    return 2 * (n - 1) * (LATENCY + size / n / NVLINK)


def step(llm: Any, low: str | None, nodes: int, devices: int, expert_tp: int, contexts: list[int], layers: Any) -> Sum:
    """Without co-processing: every expert, and attention, on the processor that is done first."""
    at = ["xpu", low] if low else ["xpu"]
    hidden, heads, kv = llm.hidden_size, llm.num_attention_heads // devices, llm.num_key_value_heads // devices
    width, rows, every = llm.head_dim, len(contexts) // nodes, nodes * devices
    size, total, waiting = 2 * rows * hidden, Sum(), iter(layers)
    for i in range(llm.num_hidden_layers):
        one = Sum()
        one.matrix("xpu", rows, hidden, (heads + 2 * kv) * width)
        one.matrix("xpu", rows, heads * width, hidden)
        one.vectors(2 * (2 + 3) * rows * hidden)  # two norms, two sums of two
        total.add(one, every)
        waits = 0.0
        for node in range(nodes):
            choices = [Sum() for _ in at]
            for choice, where in zip(choices, at, strict=True):
                choice.cache(where, sum(contexts[node::nodes]), heads, kv, width)
            total.add(shorter(choices), devices, 0)
            waits = max(waits, shorter(choices).s)
        total.s += waits
        total.s += 2 * all_reduce_s(size, devices)
        if i in llm.dense_layers or llm.num_experts == 1:
            total.add(ffn("xpu", rows, hidden, llm.intermediate_size // devices, llm.gated_ffn), every)
            continue
        gate = Sum()
        gate.matrix("xpu", rows, hidden, llm.num_experts)
        total.add(gate, every)
        tokens, groups = next(waiting), every // expert_tp
        slowest = 0.0
        for g in range(groups):
            mine = Sum()
            for n in tokens[g * len(tokens) // groups : (g + 1) * len(tokens) // groups]:
                cut = llm.intermediate_size // expert_tp
                mine.add(shorter([ffn(where, n, hidden, cut, llm.gated_ffn) for where in at]), 1)
            total.add(mine, expert_tp, 0)
            slowest = max(slowest, mine.s)
        total.s += slowest
        if expert_tp > 1:
            total.s += all_reduce_s(size, expert_tp)
        if nodes > 1:
            away = size * llm.num_experts_per_tok * (nodes - 1) / nodes / devices
            total.s += 2 * (NETWORK_LATENCY + away / NETWORK)
    return total


def prompts_attention(found: Sum, prompts: list[tuple[int, int]], heads: int, kv_heads: int, width: int) -> None:
    """Of (new tokens, context) on an xPU: keys and queries in, then values in and results out; each new token sees
    itself and what came before."""
    new = sum(n for n, _ in prompts)
    seen = sum(sum(range(context - n + 1, context + 1)) for n, context in prompts)
    kept = sum(context for _, context in prompts)
    for _ in ("Q K", "P V"):
        size, macs = 2 * kept * kv_heads * width + 2 * new * heads * width, seen * heads * width
        found.s += max(size / PINS, 2 * macs / RATE["xpu"])
        found.pj += size / 32 * 891 + size / 1024 * 909 + 0.46 * macs
        found.macs += macs


def even(rows: int, experts: int, each: int) -> list[int]:
    """Tokens of each expert, where each row goes to `each` of them and none has more than one above another."""
    found = [0] * experts
    for i in range(rows * each):
        found[i % experts] += 1
    return found


def mixed(
    llm: Any, low: str | None, devices: int, apart: bool, prompts: list[tuple[int, int, bool]], contexts: list[int]
) -> Sum:
    """A stage of a node without co-processing and expert parallelism, all layers: prompts are (new, context, ends).
    apart: half of the devices for experts and decode attention."""
    half = devices // 2 if apart else devices
    rows = sum(new for new, _, _ in prompts) + len(contexts)
    hidden, heads, width = llm.hidden_size, llm.num_attention_heads // half, llm.head_dim
    kv, size, total = llm.num_key_value_heads // half, 2 * rows * llm.hidden_size, Sum()
    at = [low] if apart else ["xpu", low] if low else ["xpu"]
    for i in range(llm.num_hidden_layers):
        one, attends, looks = Sum(), Sum(), Sum()
        one.matrix("xpu", rows, hidden, (heads + 2 * kv) * width)
        one.matrix("xpu", rows, heads * width, hidden)
        one.vectors(10 * rows * hidden)
        if prompts:
            prompts_attention(looks, [each[:2] for each in prompts], heads, kv, width)
        if contexts:
            choices = [Sum() for _ in at]
            for choice, where in zip(choices, at, strict=True):
                choice.cache(str(where), sum(contexts), heads, kv, width)
            attends = shorter(choices)
        total.add(one, half)
        total.add(looks, half, max(looks.s, attends.s) if apart else looks.s + attends.s)
        total.add(attends, half, 0)
        if apart and contexts:
            moved = 2 * len(contexts) * 2 * (llm.num_attention_heads + llm.num_key_value_heads) * width
            total.s += LATENCY + moved / half / NVLINK
        total.s += 2 * all_reduce_s(size, half)
        if i in llm.dense_layers:
            total.add(ffn("xpu", rows, hidden, llm.intermediate_size // half, llm.gated_ffn), half)
            continue
        gate = Sum()
        gate.matrix("xpu", rows, hidden, llm.num_experts)
        total.add(gate, half)
        tokens, slowest = even(rows, llm.num_experts, llm.num_experts_per_tok), 0.0
        for g in range(half):
            mine = Sum()
            for n in tokens[g * len(tokens) // half : (g + 1) * len(tokens) // half]:
                mine.add(shorter([ffn(str(w), n, hidden, llm.intermediate_size, llm.gated_ffn) for w in at]), 1)
            total.add(mine, 1, 0)
            slowest = max(slowest, mine.s)
        total.s += slowest + (2 * (LATENCY + size / NVLINK) if apart else 0)
    if apart and any(ends for *_, ends in prompts):
        total.s += LATENCY + ended_bytes(llm, prompts, half) / NVLINK
    return total


def ended_bytes(llm: Any, prompts: list[tuple[int, int, bool]], devices: int) -> float:
    """Keys and values of prompts that end, on each device."""
    kept = sum(context for _, context, ends in prompts if ends)
    return 2 * kept * 2 * llm.num_key_value_heads // devices * llm.head_dim * llm.num_hidden_layers
