"""What a layer takes on AttAcc's GPUs beside attention: matrices, experts, norms, all-reduces; of one GPU."""

from collections import Counter
from collections.abc import Iterable

from pimloom.energy.ledger import Ledger
from pimloom.systems.devices.attacc.box import Box, Decoder
from pimloom.systems.devices.attacc.gpu import (
    Cost,
    Matrix,
    activation,
    all_reduce_cost,
    fitted_all_reduce,
    norm,
    product,
)
from pimloom.systems.reference.attacc import Slips
from pimloom.workload.routing import tokens_of


def linear_parts(box: Box, decoder: Decoder, rows: int, slips: Slips) -> dict[str, Cost]:
    """Of so many tokens. Tokens of equal number go to several experts as one batch of products."""
    gpu, n, size = box.gpu, box.gpus, box.element_bytes
    width, ffn, head = decoder.width, decoder.ffn / n, decoder.head_dim
    experts = Counter(tokens_of_experts(decoder, rows))

    def matrix(n_out: float, n_in: float) -> Cost:
        return product(gpu, Matrix(rows, n_out, n_in), size, slips)

    def of_experts(n_out: float, n_in: float) -> Cost:
        every = (product(gpu, Matrix(m, n_out, n_in, count), size, slips) for m, count in experts.items())
        return added(every)

    up = of_experts(ffn, width)
    parts = {
        "qkv": matrix((decoder.heads + 2 * decoder.groups) // n * head, width),
        "projection": matrix(width, decoder.heads // n * head),
        "up": up,
        "down": of_experts(width, ffn),
        "activation": activation(gpu, sum(experts.elements()) * ffn, size, slips, gated=decoder.gated),
    }
    if decoder.gated:
        parts["gate"] = up
    if decoder.experts:
        parts["router"] = matrix(decoder.experts.number, width)
    parts |= {f"norm {i}": norm(gpu, rows * width, size, slips) for i in (1, 2)}
    reduced = all_reduce_cost(box.fabric, box.collective_us, n, rows * width * size, slips)
    if slips.fitted_links:
        reduced = fitted_all_reduce(gpu, box.fabric.near.pj_per_bit or 0.0, n, rows * width * size, slips)
    return parts | {f"all-reduce {i}": reduced for i in (1, 2)}


def tokens_of_experts(decoder: Decoder, rows: int) -> list[int]:
    """Of each that has any; a layer without experts is one."""
    if decoder.experts is None:
        return [rows]
    number, chosen, routing = decoder.experts
    return [m for m in tokens_of(rows, chosen, number, routing) if m]


def added(costs: Iterable[Cost]) -> Cost:
    """One after the other; bound by memory if the longest of them is."""
    every = list(costs)
    pj, least = Counter[str](), Counter[str]()
    for cost in every:
        pj.update(cost.energy.pj)
        least.update(cost.least)
    longest = max(every, key=lambda cost: cost.seconds)
    seconds, macs = sum(cost.seconds for cost in every), sum(cost.macs for cost in every)
    return Cost(seconds, longest.by_memory, Ledger(dict(pj)), macs, least=least)
