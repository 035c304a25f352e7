"""Weights of few bits and attention that looks at a part: what they gain, and what a bank cannot have of it."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from msgspec.structs import replace

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import load_system
from pimloom.arch.units import BITS_PER_BYTE, GIB
from pimloom.reports.serving.rows import Row, device_with, row, within
from pimloom.workload.batch import Batch, Request
from pimloom.workload.decoding import density, precision
from pimloom.workload.decoding.formats import FORMATS, Rates, WeightFormat, crossing_rows, gemm_s
from pimloom.workload.derive import layer_ops
from pimloom.workload.need import flops

A10 = {"peak_tflops": "125", "memory_gb_s": "600", "memory_bytes": str(24 * GIB)}  # [recalled]
A10_RATES = Rates(125e12, 600e9)  # the same, FLOP/s and B/s
WIDE, FOUR = WeightFormat(16), FORMATS["int4"]
SALE_SPEEDUP, SELECTION, LONG = 3.36, 0.11, 65536  # [paper] speed-up, selection; tokens
TOKENS, BLOCKS, PASSES = 110_000, 60, 50  # [paper] tokens; [recalled] HunyuanVideo
VIDEO_HEADS, VIDEO_HEAD, SPARSE = 24, 128, 0.2  # [recalled]; [design]


def marlin() -> Iterator[Row]:
    """A matrix product by itself, then a model."""
    for rows in (1, 16, 64, 128, 256):
        gain = gemm_s(rows, 8192, 8192, WIDE, A10_RATES) / gemm_s(rows, 8192, 8192, FOUR, A10_RATES)
        near = rows <= 16
        yield row("MARLIN", f"gain of a product of {rows} rows", gain, "3.87" if near else "falls", "secondary",
                  unit="×", verdict=within(gain / 3.87, 0.97, 1.03) if near else "report only",
                  tolerance="3 %" if near else "shown only", machine="A10", basis="derived")  # fmt: skip
    for bits in (FOUR.mean_bits, 16):
        yield row("MARLIN", f"rows from which {float(bits):g} bits compute longer than they load",
                  crossing_rows(bits, A10_RATES), "no figure", "derived", digits=".0f", machine="A10")  # fmt: skip
    llm = load_llm("llama-2-7b")
    wide, narrow = device_with("gpu_a100", llm, A10), device_with("gpu_a100", llm, A10, weights=FOUR)
    for batch in (1, 8):
        step = Batch.decode([512] * batch)
        yield row("MARLIN", "gain of a decode step", wide.step(step).time_s / narrow.step(step).time_s, "up to 2.8",
                  "paper", unit="×", machine=f"llama-2-7b on an A10, batch {batch}")  # fmt: skip


def qsync() -> Iterator[Row]:
    """Two devices, one of them twice as fast; losses are synthetic."""
    rng = np.random.default_rng(2)
    times = np.sort(rng.uniform(1, 4, (12, 3)))
    losses = -np.sort(-rng.random((12, 3)))

    def machine(factor: float) -> precision.Machine:
        choices = {f"op {i}": [precision.Choice(factor * t, 1.0 + k, float(losses[i, k])) for k, t in enumerate(of)]
                   for i, of in enumerate(times.tolist())}  # fmt: skip
        return precision.Machine(choices, 30.0)

    machines = [machine(1.0), machine(2.0)]
    narrow = [dict.fromkeys(one.choices, 0) for one in machines]
    found = precision.allocate(machines)
    same = precision.step_time(machines, found) / precision.step_time(machines, narrow)
    yield row("QSync", "step time over that of the narrowest formats", same, "no slower", "design",
              verdict=within(same, 0, 1), tolerance="at most 1")  # fmt: skip
    left = precision.loss(machines, found) / precision.loss(machines, narrow)
    yield row("QSync", "loss over that of the narrowest, synthetic", left, "accuracy +0.27 to 1.03 %", "paper")


def sale() -> Iterator[Row]:
    """The share of attention that may be looked at for the published speed-up."""
    needed = density.needed(SALE_SPEEDUP, SELECTION)
    yield row("SALE", "density, if the claim is of attention alone", needed, "0.188", "derived", unit="of all pairs",
              verdict=within(needed, 0.1875, 0.1885), tolerance="its digits")  # fmt: skip
    llm = load_llm("llama-3-8b")
    run = device_with("gpu_a100", llm, {"memory_bytes": str(80 * GIB)}, outside=False).step(Batch.prefill([LONG]))
    attention = sum(span.end_ps - span.start_ps for span in run.spans if span.operator == "fused_mha") / run.end_ps
    yield row("SALE", f"attention's part of a prompt of {LONG:,} tokens", attention, "no figure", "derived",
              machine="llama-3-8b on gpu_a100")  # fmt: skip
    bound = 1 / (1 - attention * (1 - SELECTION))
    yield row("SALE", "bound of the gain of the whole prompt", bound, f"{SALE_SPEEDUP}", "paper", unit="×",
              machine="llama-3-8b on gpu_a100")  # fmt: skip


def _video() -> tuple[LlmSpec, Batch]:
    """HunyuanVideo's blocks, and a pass of one video: each token attends to all."""
    d = VIDEO_HEADS * VIDEO_HEAD
    llm = replace(
        load_llm("gpt2-xl"), name="HunyuanVideo", num_hidden_layers=BLOCKS, hidden_size=d, intermediate_size=4 * d,
        num_attention_heads=VIDEO_HEADS, num_key_value_heads=VIDEO_HEADS, head_dim=VIDEO_HEAD,
        max_position_embeddings=TOKENS,
    )  # fmt: skip
    return llm, Batch((Request("verify", TOKENS, TOKENS, 0, pairs=TOKENS**2),))


def adaspa() -> Iterator[Row]:
    """Operations of full attention over all tokens of a video, and what a processor gains of a density."""
    llm, video = _video()
    layer = layer_ops(llm, video)
    every = BLOCKS * flops(layer)
    attention = BLOCKS * flops(op for op in layer if op.kind in ("score", "softmax", "value"))
    said = f"{BLOCKS} blocks of width {llm.hidden_size:,}, from memory; {TOKENS:,} tokens"
    for what, count, published in (("all", every, "600"), ("attention", attention, "500")):
        yield row("AdaSpa", f"operations of {PASSES} passes: {what}", PASSES * count / 1e15, published, "paper",
                  unit="PFLOP", digits=".0f", machine=said)  # fmt: skip
    share = attention / every
    yield row("AdaSpa", "attention's part of the operations", share, "0.833", "paper", machine=said,
              verdict=within(share / (500 / 600), 0.95, 1.05), tolerance="5 %",
              basis="derived")  # fmt: skip
    yield row("AdaSpa", "bound of the gain by any sparsity of it", 1 / (1 - share), "6", "derived", unit="×",
              machine=said)  # fmt: skip
    one, some = replace(llm, num_hidden_layers=1), density.density_of(f"{SPARSE}, phase=all")  # none keeps its keys
    full, sparse = (device_with("gpu_h100", one, outside=False, density=how).step(video).time_s for how in (None, some))
    yield row("AdaSpa", f"gain of a block, {SPARSE:.0%} of all pairs", full / sparse, "substantial", "paper", unit="×",
              machine="gpu_h100")  # fmt: skip


def dsv() -> Iterator[Row]:
    """Heads of unequal density over devices."""
    needed = density.of_part(3.02, 0.95)
    yield row("DSV", "gain that attention needs", needed, "3.38", "derived", unit="×",
              verdict=within(needed, 3.375, 3.385), tolerance="its digits")  # fmt: skip
    worst, plain, rng = 1.0, 1.0, np.random.default_rng(4)
    for _ in range(30):
        loads = rng.random(8).tolist()
        best = min(density.slowest(loads, where) for where in product(range(2), repeat=8))
        worst = max(worst, density.slowest(loads, density.longest_first(loads, 2)) / best)
        plain = max(plain, density.slowest(loads, [i % 2 for i in range(8)]) / best)
    yield row("DSV", "longest first over the best, worst of 30", worst, "no figure", "design",
              verdict=within(worst, 1, 7 / 6), tolerance="7 / 6 (Graham)")  # fmt: skip
    yield row("DSV", "heads in turn over the best, worst of 30", plain, "no figure", "design")


def in_rows(share: float = 0.19) -> Iterator[Row]:
    """Blocks of tokens beside rows of banks."""
    part = load_system("neupims").memory.organization
    wide = part.row_bytes * BITS_PER_BYTE // WIDE.bits
    kinds = {f"keys, a token in each of {part.banks} banks": part.banks, f"values, {wide} tokens in a row": wide}
    for what, tokens in kinds.items():
        for block in (64, 512):
            yield row("sparse attention in banks", f"rows that are opened: {what}, blocks of {block}",
                      density.rows_kept(share, block, tokens), f"{share:g} kept", "derived",
                      machine="neupims")  # fmt: skip
