"""Branches: what several at once gain, and what their shared caches cost to read."""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.reports.serving.rows import Place, Row, device_with, latency_s, placed, row, within
from pimloom.workload.batch import Batch
from pimloom.workload.decoding import branches, order_statistics, pruning

GPU, PROMPT, EVERY = "gpu_a100", 256, 32
SHAPES = {  # [recalled] Qwen2.5: layers, width, heads, heads of K and V, FFN, words
    "Qwen2.5-1.5B": (28, 1536, 12, 2, 8960, 151936),
    "Qwen2.5-7B": (28, 3584, 28, 4, 18944, 152064),
}


def _shape(name: str) -> LlmSpec:
    layers, width, heads, kv, ffn, words = SHAPES[name]
    return replace(
        load_llm("llama-3-8b"), name=name, num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads,
        num_key_value_heads=kv, head_dim=width // heads, intermediate_size=ffn, vocab_size=words,
    )  # fmt: skip


def multiverse() -> Iterator[Row]:
    """A graph of the published parallelism, against one with all tokens in sequence."""
    graph = branches.multiverse(330, [45, 45, 45], 155)  # [design] to the published parallelism
    tokens, steps = branches.total(graph), branches.longest(graph)
    degree = tokens / steps
    yield row("Multiverse", "tokens of a step", degree, "1.15 to 1.18", "secondary")
    line = {"all": branches.Segment(tokens)}
    gpu, pim = placed(Place(GPU, "llama-3-8b")), placed(Place("pim_gpt", "gpt2-xl"))
    for batch in (1, 16):
        several = [[_times(made, batch) for made in branches.steps(one, PROMPT, shared=True)] for one in (line, graph)]
        gain = latency_s(gpu, several[0], EVERY) / latency_s(gpu, several[1], EVERY)
        checked = {"verdict": within(gain / degree, 0.95, 1.05), "tolerance": "5 % of the parallelism"}
        yield row("Multiverse", "gain of latency", gain, "up to 2", "paper", unit="×",
                  machine=f"llama-3-8b on {GPU}, batch {batch}", **(checked if batch == 1 else {}))  # fmt: skip
    alone = [list(branches.steps(one, PROMPT, shared=False)) for one in (line, graph)]
    gain = latency_s(pim, alone[0], EVERY, by_row=True) / latency_s(pim, alone[1], EVERY, by_row=True)
    yield row("Multiverse", "gain of latency, a row at a time", gain, "no figure", "derived", unit="×",
              machine="gpt2-xl on pim_gpt, batch 1")  # fmt: skip


def _times(batch: Batch, number: int) -> Batch:
    """So many requests with these branches."""
    apart = [at._replace(group=at.group and at.group + 1000 * i) for i in range(number) for at in batch.requests]
    return Batch(tuple(apart))


def hogwild() -> Iterator[Row]:
    """Workers who see one another's tokens."""
    device, tokens = placed(Place(GPU, "llama-3-8b")), 1024
    for workers in (1, 2, 4):
        for shared in (True, False):
            made = list(branches.workers(PROMPT, workers, tokens // workers, shared=shared))
            how = "caches read once" if shared else "once for each worker"
            yield row("Hogwild!", f"{workers} workers, {how}", tokens / latency_s(device, made, EVERY), "no figure",
                      "paper", unit="tokens/s", machine=f"llama-3-8b on {GPU}", digits=",.0f")  # fmt: skip


def threads() -> Iterator[Row]:
    """Threads, whose text is computed again behind their join."""
    device, lengths = placed(Place(GPU, "llama-3-8b")), [300, 250, 200, 150]  # [design]
    graph = branches.threads(200, lengths, 300)
    line = {"all": branches.Segment(branches.total(graph))}
    free = {name: one._replace(again=0) for name, one in graph.items()}
    times = [latency_s(device, branches.steps(one, PROMPT, shared=True), EVERY) for one in (line, graph, free)]
    yield row("ThreadWeaver", "gain of latency", times[0] / times[1], "up to 1.53", "paper", unit="×",
              machine=f"llama-3-8b on {GPU}, batch 1")  # fmt: skip
    charged = times[1] > times[2]
    yield row("ThreadWeaver", "text of the threads computed again", 100 * (times[1] / times[2] - 1), "charged",
              "derived", unit="%", verdict="pass" if charged else "FAIL", tolerance="above 0")  # fmt: skip


def paths() -> Iterator[Row]:
    """Eight paths beside one, then a summary."""
    for name in SHAPES:
        device = device_with(GPU, _shape(name), outside=False)
        for shared in (True, False):
            times = [
                latency_s(device, branches.steps(branches.paths([2048] * n, 256), PROMPT, shared=shared), EVERY)
                for n in (1, 8)
            ]
            more = 100 * (times[1] / times[0] - 1)
            how = "prompt read once" if shared else "prompt read by each"
            yield row("ParaThinker", f"latency of 8 paths over that of one, {how}", more, "7.1", "paper", unit="%",
                      verdict=within(more, 0, 20), tolerance="0 to 20 %", machine=f"{name} on {GPU}")  # fmt: skip


def stopping() -> Iterator[Row]:
    """Eight branches of which four must end."""
    of, drawn_alike = order_statistics, order_statistics.exponential()
    some = ((1, 1), (2, 4), (4, 8), (8, 8))
    worst = max(abs(of.mean_of_rank(drawn_alike, m, n) / of.exponential_mean(m, n) - 1) for m, n in some)
    yield row("SART", "order statistics beside their closed form, largest difference", worst, "0", "derived",
              digits=".1e", verdict="pass" if worst < 1e-6 else "FAIL", tolerance="1e-6")  # fmt: skip
    lengths = of.lognormal(0.0, 1.0)  # [design]
    gain = of.mean_of_rank(lengths, 4, 4) / of.mean_of_rank(lengths, 4, 8)
    yield row("SART", "gain of latency, the first 4 of 8 over all of 4, lognormal lengths", gain,
              "up to 28.2, mean 15.7", "paper", unit="×")  # fmt: skip
    drawn = np.maximum(np.random.default_rng(1).lognormal(6.0, 1.0, (200, 8)), 1).astype(int)
    found = list[tuple[int, int]]()
    for seed, one in enumerate(drawn):
        worth = pruning.walks(8, 64, 0.5, 0.1, seed)
        each = [pruning.pruned(one.tolist(), worth, pruning.Rules(4, below, 4, 64)).tokens for below in (0.4, -1.0)]
        found.append((each[0], each[1]))
    kept = sum(a for a, _ in found) / sum(b for _, b in found)
    yield row("SART", "tokens with pruning, of those without; worth walks at random", kept, "no figure", "secondary")
