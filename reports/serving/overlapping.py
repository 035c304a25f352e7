"""Overlap inside a machine: nano-batches, woven halves, sub-batches with prompts in them."""

from collections.abc import Iterator
from functools import cache

import numpy as np
from msgspec.structs import replace

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.system import load_system
from pimloom.arch.units import FLOP_PER_TFLOP, GIB
from pimloom.reports.serving.rows import Row, row, within
from pimloom.reports.serving.tokenweave_data import (
    ELEMENTS,
    FUSED_US,
    HYBRID,
    NORM_US,
    OFFSET,
    PROMPTS,
    RATES,
    TOKENS,
    UNITS,
    Measured,
)
from pimloom.systems.devices.device import Share, device_of
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.systems.serving.overlap.device import MOST_PARTS, Overlap, Overlapped
from pimloom.systems.serving.overlap.listing import Task, schedule
from pimloom.systems.serving.overlap.operators import Chain, Said, Talk, Weave, chain_of
from pimloom.systems.serving.overlap.parts import Part, woven
from pimloom.systems.serving.overlap.waves import Units
from pimloom.workload.batch import Batch
from pimloom.workload.need import active_parameters
from pimloom.workload.op import Op

PS_PER_MS, US_PER_MS = 10**9, 1000
MEASURED_TFLOPS = 260  # [recalled] what products of matrices get of an A100
A100 = {"memory_bytes": str(80 * GIB), "memory_gb_s": "2039", "peak_share": f"{MEASURED_TFLOPS / 312}"}  # [recalled]
DENSE, IN, OUT = 2048, 1024, 512  # [design] tokens of an iteration; [secondary] input and output of a request
SHAPES = {  # [recalled] layers, width, heads, heads of K and V, FFN, words
    "Qwen2.5-72B": (80, 8192, 64, 8, 29568, 152064),
    "Mixtral-8x22B": (56, 6144, 48, 8, 16384, 32000),
}
SMS, HOLDS = 132, {"Llama-3.3-70B": 6.0, "Qwen2.5-72B": 6.0, "Mixtral-8x22B": 12.0}  # of an H100; percent


def nanoflow() -> Iterator[Row]:
    """Llama-2-70B on eight A100: an iteration of as many tokens as it takes, two of three of them of prompts."""
    llm, said = load_llm("llama-2-70b"), "llama-2-70b on 8 A100 of 80 GB"
    optimum = MEASURED_TFLOPS * FLOP_PER_TFLOP / (2 * active_parameters(llm))
    yield row("NanoFlow", "optimum, F / 2P, of a device", optimum, "1857", "recalled", unit="tokens/s", digits=",.0f",
              verdict=within(optimum / 1857, 0.95, 1.05), tolerance="5 %", machine=said,
              basis="derived")  # fmt: skip
    device = device_of(load_system("gpu_a100", A100), llm, Share(8, llm.num_hidden_layers, outside=True))
    assert isinstance(device, RooflineDevice)
    decode = DENSE * OUT // (IN + OUT)
    batch = Batch.decode([IN + OUT // 2] * decode) + Batch.prefill([DENSE - decode])
    serial = Overlapped(device, Overlap("serial")).step(batch)
    gains = []
    for parts in range(2, MOST_PARTS + 1):
        run = Overlapped(device, Overlap("nanoflow", parts)).step(batch)
        gains.append(serial.end_ps / run.end_ps)
        what = f"gain over operators in sequence, {parts} nano-batches"
        yield row("NanoFlow", what, gains[-1], "no figure", "derived", unit="×", machine=said)
    best = max(gains)
    yield row("NanoFlow", "gain, the best of them", best, "1.91 over other programs", "paper", unit="×",
              verdict=within(best, 1.2, 2.2), tolerance="1.2 to 2.2", machine=said)  # fmt: skip
    reached = best * DENSE / serial.time_s / 8 / optimum
    yield row("NanoFlow", "part of the optimum that is reached", reached, "0.5 to 0.72", "paper", machine=said)


@cache
def shape(name: str) -> LlmSpec:
    """Of a measured model."""
    if name not in SHAPES:
        return load_llm("llama-3-70b")
    layers, width, heads, kv, ffn, words = SHAPES[name]
    like = load_llm("mixtral-8x7b" if name.startswith("Mixtral") else "llama-3-70b")
    return replace(
        like, name=name, num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads,
        num_key_value_heads=kv, head_dim=width // heads, intermediate_size=ffn, vocab_size=words,
        max_position_embeddings=65536,
    )  # fmt: skip


def measured_ms(column: tuple[float, ...], tokens: int, width: int) -> float:
    """Of so many rows of such a width; beyond the table along its last stretch."""
    more = (column[-1] - column[-2]) / (TOKENS[-1] - TOKENS[-2]) * max(tokens - TOKENS[-1], 0)
    return (float(np.interp(tokens, TOKENS, column)) + more) * width / ELEMENTS / US_PER_MS


def predicted_ms(name: str, at: Measured) -> float:
    """A woven prompt from what was measured without all-reduces."""
    return woven_ms(name, Batch.prefill([at.tokens]), at.alone, at.units, at.offset)


def woven_ms(name: str, batch: Batch, alone_ms: float, ctas: tuple[int, int], offset: int) -> float:
    """A woven step from its time without all-reduces, and from its collectives: products of a part take what their
    tiles need on the units that are left, over what all of them need on all."""
    longest = max(one.context for one in batch.requests)
    llm = replace(shape(name), max_position_embeddings=max(longest, shape(name).max_position_embeddings))
    device = device_of(load_system("gpu_h100"), llm, Share(8, llm.num_hidden_layers, outside=False))
    assert isinstance(device, RooflineDevice)
    whole = chain_of(device, batch, lambda op: Talk(0, norms=True), Weave(Units(0, SMS), None))
    norms = 2 * llm.num_hidden_layers * measured_ms(NORM_US, batch.rows, llm.hidden_size)
    scale = (alone_ms - norms) * PS_PER_MS / sum(task.alone for task in whole.tasks)
    weave = Weave(Units(sum(ctas) // 2, SMS), None)
    chains = list[Chain]()
    for part in woven(batch, offset):
        chains.append(chain_of(device, part.batch, _said(part, llm), weave, chains[-1] if part.follows else None))
    return schedule([[_scaled(task, scale) for task in chain.tasks] for chain in chains]).end / PS_PER_MS


def _said(part: Part, llm: LlmSpec) -> Said:
    """A collective with its norm, as measured."""
    ps = round(measured_ms(FUSED_US, part.batch.rows, llm.hidden_size) * PS_PER_MS)

    def talk(op: Op) -> Talk:
        return Talk(ps, norms=True)

    return talk


def _scaled(task: Task, scale: float) -> Task:
    return task if task.name == "all-reduce" else task._replace(alone=task.alone * scale)


def tokenweave() -> Iterator[Row]:
    """Every prompt that was measured on eight H100."""
    found = {(name, at): predicted_ms(name, at) for name, some in PROMPTS.items() for at in some}
    for name, some in PROMPTS.items():
        for at in some:
            ours, limit = found[name, at], HOLDS[name]
            off = 100 * (ours / at.woven - 1)
            yield row("TokenWeave", f"prompt of {at.tokens:,} tokens [ms]", ours, f"{at.woven:g} ({off:+.1f} %)",
                      "secondary", digits=".1f", verdict=within(off, -limit, limit), tolerance=f"{limit:g} %",
                      machine=f"{name} on 8 H100, from its time without all-reduces")  # fmt: skip
    loss = PROMPTS["Mixtral-8x22B"][0]
    gain = loss.baseline / found["Mixtral-8x22B", loss]
    yield row(
        "TokenWeave",
        "gain of 1,024 tokens with experts",
        gain,
        f"{loss.baseline / loss.woven:.2f}, a loss",
        "secondary",
        unit="×",
        verdict=within(gain, 0, 1),
        tolerance="below 1",
        machine="Mixtral-8x22B on 8 H100",
    )
    best = max(at.baseline / ours for (_, at), ours in found.items())
    measured = max(at.baseline / at.woven for _, at in found)
    yield row("TokenWeave", "largest gain of a prompt", best, f"{measured:.2f} in its files, 1.29 in the abstract",
              "paper", unit="×")  # fmt: skip


def throughput() -> Iterator[Row]:
    """Iterations of prompts and decode in the proportion of the requests that were measured, of all the tokens that
    one may have; requests stand evenly between their first and their last token."""
    best = measured = 0.0
    for name, (prompt, output), rates in RATES:
        decode = HYBRID * output // (prompt + output)
        left = HYBRID - decode
        prompts = [prompt] * (left // prompt) + ([left % prompt] if left % prompt else [])
        batch = Batch.decode([prompt + 1 + i * output // decode for i in range(decode)]) + Batch.prefill(prompts)
        ours = 1000 * HYBRID / woven_ms(name, batch, 1000 * HYBRID / rates.alone, UNITS, OFFSET)
        best, measured = max(best, ours / rates.baseline), max(measured, rates.woven / rates.baseline)
        yield row("TokenWeave", f"requests of {prompt}:{output}, woven", ours,
                  f"{rates.woven:,.0f} ({100 * (ours / rates.woven - 1):+.1f} %)", "secondary", unit="tokens/s",
                  digits=",.0f", machine=f"{name} on 8 H100, from its rate without all-reduces")  # fmt: skip
    yield row("TokenWeave", "largest gain of throughput", best, f"{measured:.2f} in its files, 1.26 in the abstract",
              "paper", unit="×")  # fmt: skip


def sub_batches() -> Iterator[Row]:
    """NeuPIMs with a chunk of a prompt beside decode: one batch over two sub-batches."""
    for chunk in (0, 64):
        times = []
        for parts in (1, 2):
            system = load_system("neupims", {"interleave.sub_batches": str(parts)})
            device = device_of(system, load_llm("gpt3-small"), Share(1, 1, outside=False))
            batch = Batch.decode([256] * 32)
            times.append(device.step(batch + Batch.prefill([chunk]) if chunk else batch).time_s)
        beside = f", a chunk of {chunk} beside it" if chunk else ""
        what = f"gain of two sub-batches, 32 requests decode{beside}"
        yield row("NeuPIMs interleaving (generalised)", what, times[0] / times[1], "no figure", "derived", unit="×",
                  machine="gpt3-small, a layer on neupims")  # fmt: skip
