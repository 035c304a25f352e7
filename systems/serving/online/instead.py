"""What would do instead where a request, or a whole model, does not fit."""

from bisect import bisect_left
from collections.abc import Callable

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import GIB
from pimloom.systems.devices.device import Capacity
from pimloom.systems.devices.traits import traits
from pimloom.systems.serving.options.named import ONLY, Limits, scheduler_of
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.systems.serving.transforms.transform import Transform
from pimloom.workload.requests.table import Requests

MOST_BLOCKS = 1 << 40  # that are tried


def instead_of(
    why: str, wanted: Wanted, limits: Limits, requests: Requests, transform: Transform | None, more: str
) -> str:
    """What to do about why a request could never run, as the end of a sentence. more: what has more blocks."""
    if "blocks" in why:
        return _blocks(wanted, limits, requests, transform, more)
    return _tokens(wanted, limits, requests) if "no part of a prompt" in why else ""


def _tokens(wanted: Wanted, limits: Limits, requests: Requests) -> str:
    """Room in an iteration for the longest prompt; or prompts in chunks, where the scheduler has them."""
    said = f"; take --batch-tokens {max(requests.prompt)}"
    if wanted.scheduler != ONLY["chunked"] or wanted.swap or wanted.speculate or wanted.branches:
        return said
    budget = limits._replace(chunked=True).budget(wanted.scheduler)
    return f"{said} or --chunked" + (f" with --batch {budget}" if limits.batch > budget else "")


def _blocks(wanted: Wanted, limits: Limits, requests: Requests, transform: Transform | None, more: str) -> str:
    """How many blocks the longest request would have to find. more: what has more of them."""
    most = max(range(len(requests.prompt)), key=lambda i: requests.prompt[i] + requests.output[i])
    live = LiveRequest(most, 0, requests.prompt[most], requests.output[most])
    if transform:
        transform.dress([live])

    def never(blocks: int) -> bool:
        said = scheduler_of(wanted.scheduler, limits._replace(blocks=blocks)).never(live)
        return said is not None and "blocks" in said

    high = limits.blocks
    while never(high) and high < MOST_BLOCKS:
        high *= 2
    if not never(limits.blocks) or never(high):
        return ""  # another one needs more, or none of them would help
    least = bisect_left(range(high), True, lo=limits.blocks, key=lambda blocks: not never(blocks))
    how = "take --blocks" if wanted.blocks else f"{more} or a --block-size that leaves"
    return f"; the longest, request {most}, needs {least:,} in all, {how} {least:,} or more"


def more_devices(system: System, llm: LlmSpec, tp: int, tokens_on: Callable[[int], int], need: int) -> str:
    """How many devices would have room for keys and values of so many tokens; else what has more memory. tokens_on:
    tokens that fit on so many."""
    has = traits(system.kind)
    if has.shared(system) and has.own_devices(system) == 1:
        for devices in range(tp + 1, llm.num_attention_heads + 1):
            if llm.num_attention_heads % devices == 0 and _fits(tokens_on, devices, need):
                return f"{devices} devices (--tp {devices})"
    return has.more


def _fits(tokens_on: Callable[[int], int], devices: int, need: int) -> bool:
    try:
        return tokens_on(devices) >= need
    except UserError:  # it does not divide something
        return False


def no_room(there: Capacity, system: System, llm: LlmSpec, size: int, instead: str) -> str:
    """Why not two blocks of keys and values fit, and what to take instead."""
    if there.tokens:
        left = f"beside its weights keys and values of {there.tokens:,} tokens fit on {system.name}, less than two"
        return f"{llm.name}: {left} blocks of {size}; take {instead}"
    weights, memory = (n / GIB for n in (there.weight_bytes, there.memory_bytes))
    return (
        f"{llm.name}: its weights take {weights:,.2f} GiB of a device, and {system.name} has {memory:,.2f} GiB, which "
        f"leaves no room for keys and values; take {instead}"
    )
