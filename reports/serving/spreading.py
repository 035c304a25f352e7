"""A model over several devices: padding, layers that lie elsewhere, windows of blocks on disk."""

from collections.abc import Iterator
from math import inf
from random import Random
from typing import NamedTuple

from pimloom.arch.llm import load_llm
from pimloom.reports.serving.rows import Place, Row, placed, row, within
from pimloom.workload.batch import Batch

MODEL, GPU = "llama-3-8b", "gpu_a100"
FP32, LOCAL, TOKENS = 4, 8, 128  # bytes; devices; tokens in the cache [design]
LATENCY_S, WIRELESS = 0.003, 3e8  # [design] a home's wireless link: of a message; bit/s
DISK, MEMORY = 2e9, 40e9  # [design] of a laptop [B/s]
HOME = "laptops of 2 GB/s of disk, 40 GB/s of memory; 3 ms, 300 Mb/s: assumed"
PUBLISHED_GB = 3.1  # [paper] TPI-LLM's memory of Llama-2-70B


def energon() -> Iterator[Row]:
    """Prompts without their padding, and layers that come over a link while others are computed."""
    device, lengths = placed(Place(GPU, MODEL)), [64, 128, 256, 512]  # [design]
    padded, packed = (device.step(Batch.prefill(some)).time_s for some in ([max(lengths)] * len(lengths), lengths))
    yield row("EnergonAI", f"time that prompts of {', '.join(map(str, lengths))} tokens save without padding",
              100 * (1 - packed / padded), "37, tensor parallel", "paper", unit="%", machine=GPU)  # fmt: skip
    worst, random = 0.0, Random(6)
    for _ in range(100):
        load, compute, layers = random.random(), random.random(), random.randrange(1, 40)
        closed = load + (layers - 1) * max(load, compute) + compute
        worst = max(worst, abs(_prefetched([load] * layers, [compute] * layers) / closed - 1))
    yield row("EnergonAI", "layers from a neighbour's memory: events beside the closed form", worst, "0", "derived",
              digits=".1e", verdict="pass" if worst < 1e-9 else "FAIL", tolerance="1e-9")  # fmt: skip


def _prefetched(loads: list[float], computes: list[float]) -> float:
    """One buffer ahead: a layer loads while the one before it is computed, not earlier."""
    loaded = begun = done = 0.0
    for load, compute in zip(loads, computes, strict=True):
        loaded = max(loaded, begun) + load
        begun = max(done, loaded)
        done = begun + compute
    return done


class Block(NamedTuple):
    """Of a model on disk: time to load, to compute and to add up."""

    load: float
    compute: float


def window_s(blocks: list[Block], window: int) -> float:
    """Recurrence [secondary: TPI-LLM]: one block loads at a time, into the place of the one `window` before it, which
    is free when the next one begins.

    >>> window_s([Block(1.0, 2.0)] * 3, 2), window_s([Block(2.0, 1.0)] * 3, 2)
    (7.0, 7.0)
    """
    loaded = [0.0] * len(blocks)
    start, end = [0.0] * len(blocks), [0.0] * len(blocks)
    for i, block in enumerate(blocks):
        free = start[i - window + 1] if i >= window else 0.0
        loaded[i] = max(loaded[i - 1] if i else 0.0, free) + block.load
        start[i] = max(end[i - 1] if i else 0.0, loaded[i])
        end[i] = start[i] + block.compute
    return end[-1]


def _events_s(blocks: list[Block], window: int) -> float:
    """The same by events: a loader and a computer, who wait for each other."""
    now, load_end, run_end, n = 0.0, inf, inf, len(blocks)
    loading = running = -1
    ready = begun = resident = 0
    while begun < n or running >= 0:
        if loading < 0 and ready < n and resident < window:
            loading, load_end, resident = ready, now + blocks[ready].load, resident + 1
        if running < 0 and begun < ready:
            running, run_end = begun, now + blocks[begun].compute
            begun += 1
            resident -= begun > 1  # the one before it is given up
            continue
        now = min(load_end, run_end)
        if now == run_end:
            running, run_end = -1, inf
        if now == load_end:
            loading, load_end, ready = -1, inf, ready + 1
    return now


def tpi() -> Iterator[Row]:
    """Two blocks of a model in memory at a time, the others on disk."""
    worst, random = 0.0, Random(7)
    for _ in range(200):
        blocks = [Block(random.random(), random.random()) for _ in range(random.randrange(2, 30))]
        window = random.randrange(2, 5)
        worst = max(worst, abs(window_s(blocks, window) / _events_s(blocks, window) - 1))
    yield row("TPI-LLM", "window of blocks: recurrence beside events", worst, "0", "derived", digits=".1e",
              verdict="pass" if worst < 1e-9 else "FAIL", tolerance="1e-9")  # fmt: skip
    llm = load_llm("llama-2-70b")
    d, heads, kv = llm.hidden_size, llm.num_attention_heads, llm.num_key_value_heads
    attention, inner = 2 * d * d + 2 * d * d * kv // heads, 3 * d * llm.intermediate_size
    ends = 2 * llm.vocab_size * d  # whole, on the device of the user
    cache = 2 * llm.num_hidden_layers * d * kv // heads * TOKENS / LOCAL
    peak = FP32 * ((attention + inner) / LOCAL + ends + cache) / 1e9
    yield row("TPI-LLM", f"memory of llama-2-70b on {LOCAL} devices, two blocks and both ends, FP32", peak,
              f"{PUBLISHED_GB}", "paper", unit="GB", verdict=within(peak / PUBLISHED_GB, 0.75, 1.25), basis="derived",
              tolerance="25 %")  # fmt: skip
    whole = FP32 * ((attention + inner) * llm.num_hidden_layers / LOCAL + cache) / 1e9
    yield row("TPI-LLM", "memory less than of an equal part of all blocks", 100 * (1 - peak / whole), "90", "paper",
              unit="%")  # fmt: skip
    bits = 8 * d * FP32
    ring = 2 * (LOCAL - 1) * LATENCY_S + 2 * (LOCAL - 1) / LOCAL * bits / WIRELESS
    star = 4 * LATENCY_S + 2 * (LOCAL - 1) * bits / WIRELESS
    yield row("TPI-LLM", "all-reduce of a token, ring over star", ring / star, "star wins", "paper", unit="×",
              machine=HOME)  # fmt: skip
    each = [FP32 * n / LOCAL for n in (attention, inner)] * llm.num_hidden_layers
    slid = window_s([Block(n / DISK, n / MEMORY + star) for n in each], 2)
    alone = sum(LOCAL * n / DISK + LOCAL * n / MEMORY for n in each)  # Accelerate: one device, one after the other
    yield row("TPI-LLM", f"time of a token of llama-2-70b on {LOCAL} devices", slid, "no figure", "paper", unit="s",
              machine=HOME)  # fmt: skip
    yield row("TPI-LLM", "less than of one device that loads a block, then computes it", 100 * (1 - slid / alone),
              "above 80, over Accelerate", "paper", unit="%", machine=HOME)  # fmt: skip
