"""ParScale: a token in several streams of one model, beside a larger model of equal quality."""

from collections.abc import Iterator
from math import log

from msgspec.structs import replace

from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.units import GIB
from pimloom.reports.serving.rows import Place, Row, device_with, placed, row, within
from pimloom.systems.devices.device import Device
from pimloom.workload.batch import Batch
from pimloom.workload.decoding import branches
from pimloom.workload.decoding.formats import Rates, WeightFormat, gemm_s
from pimloom.workload.need import kv_bytes, parameters

STREAMS, CONTEXT, HEADS = (1, 2, 4, 8), 256, 16  # [design] tokens before the step; heads of both models
MODELS = {  # [secondary: config.json of ParScale/ParScale-1.8B-P1-Pile] 1.6 B beside the embedding; [recalled] 4.4 B
    "1.6 B": (1536, 8320),
    "4.4 B": (2560, 13824),
}
LAYERS, KV_HEADS, WORDS, WIDE = 36, 2, 151936, 16  # [secondary: the same]; bits
PEAK_SHARE, MEMORY_SHARE = 0.7, 0.9  # [secondary: their cost script] of the peaks of an A100 of 80 GB
A100 = {"memory_bytes": str(80 * GIB), "memory_gb_s": "2039"}  # [recalled]
SHARES = {"peak_share": f"{PEAK_SHARE}", "memory_share": f"{MEMORY_SHARE}"}
RATES = Rates(312e12 * PEAK_SHARE, 2039e9 * MEMORY_SHARE)
QUALITY = 0.39  # [recalled: their fit on code] P streams are worth 1 + 0.39 ln P times the weights


def model(name: str, grown: float = 1.0) -> LlmSpec:
    """One of theirs; grown: with so many times the weights of its layers, in its width."""
    width, inner = (round(n * grown**0.5 / HEADS / 2) * HEADS * 2 for n in MODELS[name])
    return replace(
        load_llm("llama-3-8b"), name=name, num_hidden_layers=LAYERS, hidden_size=width, intermediate_size=inner,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=width // HEADS, vocab_size=WORDS,
        tie_word_embeddings=True,
    )  # fmt: skip


def bytes_of(llm: LlmSpec, number: int, batch: int = 1) -> int:
    """Weights and caches; of several streams learned prefixes, and what adds them up."""
    if number == 1:
        return 2 * parameters(llm) + kv_bytes(llm, Batch.decode([CONTEXT] * batch))
    sums = 2 * branches.stream_parameters(llm.hidden_size, number)
    return 2 * parameters(llm) + sums + kv_bytes(llm, branches.streams([CONTEXT] * batch, number))


def step_s(device: Device, llm: LlmSpec, number: int, batch: int = 1) -> float:
    """A step of the layers, and the two products that weigh the streams."""
    if number == 1:
        return device.step(Batch.decode([CONTEXT] * batch)).time_s
    d, wide = llm.hidden_size, WeightFormat(WIDE)
    sums = gemm_s(batch, number * d, d, wide, RATES) + gemm_s(batch, d, number, wide, RATES)
    return device.step(branches.streams([CONTEXT] * batch, number)).time_s + sums


def _flat(more: float) -> dict[str, str]:
    return {"verdict": within(more, 0, 10), "tolerance": "0 to 10 %"}


def streams() -> Iterator[Row]:
    """One to eight of them at batch 1, then a larger model; and what a row of its own costs in a bank."""
    llm = model("4.4 B")
    device, said = device_with("gpu_a100", llm, A100 | SHARES, outside=False), "4.4 B on an A100 of 80 GB"
    times, sizes = {n: step_s(device, llm, n) for n in STREAMS}, {n: bytes_of(llm, n) for n in STREAMS}
    for n in STREAMS[1:]:
        flat = n == STREAMS[-1]
        more = 100 * (times[n] / times[1] - 1)
        yield row("ParScale", f"latency of {n} streams over that of one", more, "flat" if flat else "no figure",
                  "paper", unit="% more", machine=f"{said}, batch 1", **(_flat(more) if flat else {}))  # fmt: skip
        yield row("ParScale", f"memory of {n} streams beyond that of one", (sizes[n] - sizes[1]) / 1e6, "no figure",
                  "paper", unit="MB", machine=f"{said}, {CONTEXT} tokens")  # fmt: skip
    slope = (sizes[8] - sizes[4]) / (sizes[4] - sizes[2]) / 2
    yield row("ParScale", "memory of each of the last four streams over that of the two before", slope, "1: linear",
              "secondary", verdict=within(slope, 1 - 1e-9, 1 + 1e-9), tolerance="1e-9", machine=said,
              basis="derived")  # fmt: skip
    for batch in (16, 64):
        more = 100 * (step_s(device, llm, 8, batch) / step_s(device, llm, 1, batch) - 1)
        yield row("ParScale", "latency of 8 streams over that of one", more, "no figure", "derived", unit="% more",
                  machine=f"{said}, batch {batch}")  # fmt: skip
    yield from _larger()
    cent = placed(Place("cent", "llama-2-7b"))
    one, many = (cent.step(branches.streams([CONTEXT], n)).time_s for n in (1, 8))
    yield row("ParScale", "latency of 8 streams, one behind the other in pipeline stages", 100 * (many / one - 1),
              "no figure", "derived", unit="% more", machine="llama-2-7b on cent, batch 1")  # fmt: skip


def _larger() -> Iterator[Row]:
    """Eight streams of the small model beside one of as many weights more as they are worth."""
    small, worth = model("1.6 B"), 1 + QUALITY * log(STREAMS[-1])
    large = model("1.6 B", worth)
    devices = [device_with("gpu_a100", llm, A100 | SHARES, outside=False) for llm in (small, large)]
    said = f"1.6 B on an A100 of 80 GB, batch 1, beside {worth:.2f} times the weights"
    memory = (bytes_of(large, 1) - bytes_of(small, 1)) / (bytes_of(small, 8) - bytes_of(small, 1))
    yield row("ParScale", "memory of 8 streams: so many times less beyond that of one", memory, "up to 22", "paper",
              unit="×", machine=said)  # fmt: skip
    base = step_s(devices[0], small, 1)
    latency = (step_s(devices[1], large, 1) - base) / (step_s(devices[0], small, 8) - base)
    yield row("ParScale", "latency of 8 streams: so many times less beyond that of one", latency, "up to 6", "paper",
              unit="×", machine=said)  # fmt: skip
