"""A decode step of GPUs that leave attention to stacks of HBM, or to the host, or do it themselves.

Each GPU holds its share of every layer and the heads that go with it; the stacks beside it hold the K and V of those.
Queries, keys and values go over by links and come back as contexts. That hides under attention, head by head; with
`pipelined`, so do the projections around it. With `co_processing`, the stacks read a part of the feed-forward weights.
The rules are those of AttAcc's simulator [secondary A] (scale-snu/attacc_simulator@c600051, `src/system.py`), which
takes the time of the softmax on stacks as hidden. What a processor of the host draws is not known: its attention has
time and no energy.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.near import next_to
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, BYTES_PER_GB, FLOP_PER_TFLOP, J_PER_PJ, S_PER_PS, ceil_div
from pimloom.energy.attacc import softmax_energy, way
from pimloom.energy.ledger import Ledger
from pimloom.mappers.attacc.layout import Work
from pimloom.systems.devices.attacc.box import Box, Decoder, Stacks
from pimloom.systems.devices.attacc.gpu import Cost, Gpu, Matrix, product, softmax
from pimloom.systems.devices.attacc.linear import linear_parts, tokens_of_experts
from pimloom.systems.devices.attacc.stack import attention, attention_of_groups
from pimloom.systems.reference.attacc import PHYSICAL, Slips

HOSTS = 2  # [secondary A] processors of the host
HOST_LINKS = 4  # [secondary A] PCIe links of each, which `link_gb_s` of the host is of; one to a GPU
LINK_GB_S = 600  # [secondary A] both ways, of the stacks beside a GPU
FEED_FORWARD = {"up", "gate", "down"}
QKV_SHARE = 0.75  # [secondary A] of what both projections hide: three of four equal matrices


class Step(NamedTuple):
    """Of all layers: seconds by part; energy of the box by part and by cause [J]; seconds of what all GPUs do alike, or
    the stacks or links, alone at full rate; multiply-adds and bytes on links of the box, `macs` and `sent_bytes`;
    beside: of parts of the GPUs in which the stacks work, too, how long those do."""

    seconds: dict[str, float]
    joules: dict[str, float]
    causes: dict[str, float]
    least: dict[str, float]
    counts: dict[str, float]
    beside: dict[str, float]

    @classmethod
    def of(
        cls,
        seconds: Mapping[str, float],
        parts: Mapping[str, Cost],
        gpus: int,
        layers: int,
        beside: Mapping[str, float] = {},
    ) -> "Step":
        """parts: what a layer costs one of the GPUs; seconds: of these, what is not hidden; beside: as above."""
        causes, least = Counter[str](), Counter[str]()
        for part in parts.values():
            causes.update(part.energy.pj)
            least.update(part.least)
        every = gpus * layers
        return cls(
            {name: s * layers for name, s in seconds.items()},
            {name: part.energy.total_pj * gpus * J_PER_PJ * layers for name, part in parts.items()},
            {cause: pj * gpus * J_PER_PJ * layers for cause, pj in causes.items()},
            {limit: s * layers for limit, s in least.items()},
            {name: every * fsum(getattr(part, name) for part in parts.values()) for name in ("macs", "sent_bytes")},
            {name: s * layers for name, s in beside.items()},
        )

    @classmethod
    def sum(cls, steps: Sequence["Step"]) -> "Step":
        """Of all of them, part by part and cause by cause; a part may be in some alone."""
        return cls(*_sums(steps))

    @classmethod
    def mean(cls, steps: Sequence["Step"], often: Sequence[float] | None = None) -> "Step":
        """Of all steps, part by part and cause by cause. often: how many steps each stands for, None: one."""
        often = [1.0] * len(steps) if often is None else often
        whole = fsum(often)
        return cls(*({name: value / whole for name, value in each.items()} for each in _sums(steps, often)))


def _sums(steps: Sequence[Step], often: Sequence[float] | None = None) -> Iterator[dict[str, float]]:
    """Field by field."""
    often = [1.0] * len(steps) if often is None else often
    for of_field in zip(*steps, strict=True):
        names = dict.fromkeys(name for each in of_field for name in each)
        yield {name: fsum(n * each.get(name, 0.0) for n, each in zip(often, of_field, strict=True)) for name in names}


def decode_step(box: Box, decoder: Decoder, batch: int, context: int | Sequence[int], slips: Slips = PHYSICAL) -> Step:
    """The next token of `batch` requests with `context` tokens each, or as many as each has. Raises UserError."""
    contexts = (context,) * batch if isinstance(context, int) else tuple(context)
    check_box(box, decoder, batch)
    n = box.gpus
    parts = linear_parts(box, decoder, batch, slips)
    if box.stacks:
        parts |= _on_stacks(box, box.stacks, decoder, contexts, slips)
    elif box.host:
        parts |= _on_host(box, box.host, decoder, contexts, slips)
    else:
        parts |= _attention(box.gpu, box, decoder, contexts, slips)
    seconds, beside = {name: part.seconds for name, part in parts.items()}, dict[str, float]()
    if box.stacks:
        _hide(seconds, n / decoder.heads, box.stacks.pipelined, slips)
        if box.stacks.co_processing:
            rows = max(tokens_of_experts(decoder, batch))
            for name in FEED_FORWARD & parts.keys():
                share = _share_of_gpu(box, box.stacks, parts[name].by_memory, rows, slips)
                seconds[name] *= share
                parts[name] = _co_processed(parts[name], share, box.stacks, box.element_bytes, slips)
                beside[name] = parts[name].least["commands"]
    return Step.of(seconds, parts, n, decoder.layers, beside)


def mean_step(box: Box, decoder: Decoder, batch: int, prompt: int, generated: int, slips: Slips = PHYSICAL) -> Step:
    """Of all decode steps after a prompt, the first of which finds one token more than it."""
    steps = [decode_step(box, decoder, batch, prompt + i, slips) for i in range(1, generated)]
    if not steps:
        raise UserError(f"generated: expected at least 2 tokens, got {generated}: the prompt gives the first")
    return Step.mean(steps)


def check_box(box: Box, decoder: Decoder, batch: int) -> None:
    """Raise UserError unless there is work, and the GPUs divide it."""
    if batch < 1:
        raise UserError(f"batch: expected at least 1 request, got {batch}")
    wholes = {"heads": decoder.heads, "width": decoder.width, "heads of keys": decoder.groups}
    for name, whole in wholes.items():
        if whole % box.gpus:
            fit = (n for n in range(1, decoder.groups + 1) if not any(each % n for each in wholes.values()))
            said = f"expected a divisor of the {name} of the model, {whole}, got {box.gpus}"
            raise UserError(f"gpus: {said}; nearest: {next_to(box.gpus, fit)}")


def _attention(gpu: Gpu, box: Box, decoder: Decoder, contexts: Sequence[int], slips: Slips) -> dict[str, Cost]:
    """Query heads that share keys read them once; heads of different lengths take what the mean of them takes."""
    size, head_dim, sharers = box.element_bytes, decoder.head_dim, decoder.sharers
    groups, mean = len(contexts) * (decoder.groups // box.gpus), sum(contexts) / len(contexts)
    mean = contexts[0] if len(set(contexts)) == 1 else mean
    return {
        "score": product(gpu, Matrix(sharers, mean, head_dim, groups, split=False), size, slips),
        "softmax": softmax(gpu, mean, groups * sharers, size, slips),
        "context": product(gpu, Matrix(sharers, head_dim, mean, groups, split=False), size, slips),
    }


def _sent_bytes(box: Box, decoder: Decoder, batch: int) -> int:
    """Queries, keys and values of a GPU's heads, and their contexts, which come back."""
    return 2 * batch * ((decoder.heads + decoder.groups) // box.gpus) * decoder.head_dim * box.element_bytes


def _on_host(box: Box, host: Gpu, decoder: Decoder, contexts: Sequence[int], slips: Slips) -> dict[str, Cost]:
    """Attention of all GPUs' heads on HOSTS processors, which take turns where there are more GPUs. Each GPU has a link
    to one of them; more GPUs than links share them."""
    turns = 1.0 if slips.host_of_each_gpu else box.gpus / HOSTS
    slips = replace(slips, occupancy_of_memory=False)
    found = _attention(host, box, decoder, contexts, slips)
    sent = _sent_bytes(box, decoder, len(contexts))
    rate = host.link_gb_s * BYTES_PER_GB / 2  # of a processor's links, one way
    links = HOST_LINKS if slips.host_of_each_gpu else min(1.0, HOSTS * HOST_LINKS / box.gpus)  # of each GPU
    crossing = sent / (rate / HOST_LINKS * links)
    found = {name: _in_turns(cost, turns) for name, cost in found.items()}
    found["transfer"] = Cost(crossing, True, Ledger({}), sent_bytes=sent, least={"link": crossing})
    return found


def _in_turns(cost: Cost, turns: float) -> Cost:
    """On processors of which nothing is known but their time."""
    least = {limit: seconds * turns for limit, seconds in cost.least.items()}
    return cost._replace(seconds=cost.seconds * turns, energy=Ledger({}), least=least)


def _on_stacks(box: Box, stacks: Stacks, decoder: Decoder, contexts: Sequence[int], slips: Slips) -> dict[str, Cost]:
    """Attention of one GPU's heads on the stacks beside it, its softmax alone, and what the links carry."""
    batch, here, part = len(contexts), decoder.heads // box.gpus, stacks.part
    sent = _sent_bytes(box, decoder, batch)
    work = Work(ceil_div(batch * here, stacks.count), contexts[0], decoder.head_dim, box.element_bytes)
    of_part = part.organization, compile_table(part), stacks.placement, work
    if decoder.sharers == 1 and len(set(contexts)) == 1:
        found = attention(*of_part, slips)
        full = stacks.count if slips.padded_stacks else batch * here / work.heads  # stacks as full as the fullest
        energy = Ledger({cause: pj * full for cause, pj in found.energy.pj.items()})
    else:
        each = [context for context in contexts for _ in range(decoder.groups // box.gpus)]
        found = attention_of_groups(*of_part, each, decoder.sharers, stacks.count, slips)
        energy = found.energy
    values = here * sum(contexts)
    rate = stacks.pins_gb_s(slips) * BYTES_PER_GB  # [secondary A] operations a second, too
    moved = 2 * values * box.element_bytes
    alone = max(5 * values / (rate * int(2 / box.element_bytes)), moved / rate)
    score = found.cycles * part.tCK_ps * S_PER_PS
    return {
        "score": Cost(score, True, energy, 2 * values * decoder.head_dim, least={"commands": score}),
        "softmax": Cost(alone, True, softmax_energy(moved, 5 * values // 2)),
        "transfer": transfer(box, sent),
    }


def transfer(box: Box, sent: int) -> Cost:
    """Of so many bytes between a GPU and the stacks beside it, which its link joins."""
    seconds = sent / (LINK_GB_S * BYTES_PER_GB / 2)
    pj = (box.fabric.near.pj_per_bit or 0.0) * BITS_PER_BYTE * sent
    return Cost(seconds, True, Ledger({"links": pj}), sent_bytes=sent, least={"link": seconds})


def _hide(seconds: dict[str, float], least: float, pipelined: bool, slips: Slips) -> None:
    """What goes on beside attention, but for the first head's share of it, `least`."""
    attended = seconds["score"] + seconds["softmax"]
    matrices, transfer = seconds["qkv"] + seconds["projection"], seconds["transfer"]
    beside = attended * (1 - least)
    if pipelined and (attended > matrices or matrices <= transfer):
        seconds["qkv"] *= least
        seconds["projection"] *= least
    elif pipelined:
        share = QKV_SHARE if slips.hidden_in_quarters else seconds["qkv"] / matrices
        seconds["qkv"] -= beside * share
        seconds["projection"] -= beside * (1 - share)
    behind = pipelined and attended <= matrices and matrices > transfer
    seconds["transfer"] = transfer * least if behind or attended > transfer else transfer - beside
    seconds["softmax"] = 0.0


def _co_processed(part: Cost, share: float, stacks: Stacks, element_bytes: int, slips: Slips) -> Cost:
    """What is left to the GPU, and beside it what the stacks draw: a unit holds one vector, so that each multiply-add
    there reads its weight from the cells. What takes inputs there and results back is left out."""
    read = part.macs * (1 - share) * element_bytes
    least = {limit: s * share for limit, s in part.least.items()}
    least["commands"] = read / (stacks.units_gb_s(slips) * BYTES_PER_GB)
    if slips.co_processing_for_free:
        return part._replace(least=least)
    pj = {cause: pj * share for cause, pj in part.energy.pj.items()}
    pj["multiply_add"] = part.energy.pj["multiply_add"]
    pj["cells"] = way(stacks.placement).of_bytes(read)
    return part._replace(energy=Ledger(pj), least=least)


def _share_of_gpu(box: Box, stacks: Stacks, by_memory: bool, batch: int, slips: Slips) -> float:
    """Share of feed-forward time that is left when the stacks read, or compute, beside the GPU: at full rate both end
    together."""
    gpu, units_gb_s, size = box.gpu, stacks.units_gb_s(slips), box.element_bytes
    if by_memory:
        return gpu.memory_gb_s / (gpu.memory_gb_s + units_gb_s / batch)
    peak = gpu.peak_tflops * FLOP_PER_TFLOP * (1 if slips.half_rate_beside_stacks else int(2 / size))
    return peak / (peak + units_gb_s * BYTES_PER_GB * 2 / size)
