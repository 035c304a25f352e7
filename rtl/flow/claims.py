# amaranth: UnusedElaboratable=no
"""What `pimloom rtl prove` asks about the blocks whose properties are claims."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import msgspec
from amaranth.lib.wiring import Component

from pimloom.arch.part import Part
from pimloom.arch.pim_channel import PimChannel as PimChannelSpec
from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.rtl.asic.layernorm import Layernorm
from pimloom.rtl.asic.rmsnorm import Rmsnorm
from pimloom.rtl.asic.softmax import Softmax
from pimloom.rtl.asic.sum import AccumulatePartials, TreeSum
from pimloom.rtl.blocks import BLOCKS
from pimloom.rtl.command import command_layout
from pimloom.rtl.flow.exhaustive import function_of
from pimloom.rtl.flow.lookup import build
from pimloom.rtl.formal import axi, channel, interleave, npu_channel, numbers, streams, timers, vector_unit
from pimloom.rtl.formal.question import Claim, ClaimQuestion, Setup, Subject, Task
from pimloom.rtl.npu_pim.controller import Controller
from pimloom.rtl.pim_channel import PimChannel

BITS: dict[Task, int] = {"prove": 10, "lemma": 10, "search": 10, "see": 4, "break": 4}  # of a free constant
SHORT, NARROW = 4, 4  # longest vector, width of the tree, of the blocks that are asked about
FREE = "any inputs"
UNARY = ("exp", "reciprocal", "rsqrt", "gelu", "silu")
VECTORS: dict[str, Callable[[], Component]] = {
    "asic_sum": partial(TreeSum, 2, NARROW),
    "asic_partials": AccumulatePartials,
    "asic_softmax": partial(Softmax, SHORT),
    "asic_layernorm": partial(Layernorm, SHORT),
    "asic_rmsnorm": partial(Rmsnorm, SHORT),
}


def subject(
    block: str,
    part: str,
    claims: Mapping[str, Any],
    setup: Setup,
    key: str,
    timings: str = FREE,
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Subject:
    """The claims about a block. key: what decides, beside the sources, how `setup` makes it; around: what is in force
    while it is made."""

    def question(name: str, own: bool, task: Task, twin: Any) -> str:
        with around():
            return ClaimQuestion(setup, claims[name], task, BITS[task], twin).rtlil()

    def asked(name: str, own: bool, task: Task, twin: Any) -> list[str]:
        return [block, key, name, str(BITS[task]), task, repr(twin)]

    return Subject(block, part, claims, None, question, asked, timings)


def _interleave(part: str, sub_batches: int = 2) -> Subject:
    claims = interleave.claims(sub_batches)
    told = f"any below {2 ** BITS['prove']}, {sub_batches} sub-batch{'es' if sub_batches > 1 else ''}"
    return subject("interleave", part, claims, partial(interleave.setup, sub_batches), str(sub_batches), told)


def _axi(part: str) -> Subject:
    table = compile_table(_part("sequencer_axi", part))
    key = repr((command_layout(table), table.names, table.rules.rows, table.rules.columns))
    return subject("sequencer_axi", part, axi.CLAIMS, partial(axi.setup, table), key)


def _timer(part: str) -> Subject:
    window = BLOCKS["timer"].build(_part("timer", part)).window
    setup = partial(timers.Armings, window)
    return subject("timer", part, timers.TIMER_CLAIMS, setup, str(window), f"any below {2 ** BITS['prove']}")


def _unit(part: str) -> Subject:
    device = _part("pim_unit", part)
    make = partial(BLOCKS["pim_unit"].build, device)
    found = make()
    claims, key = timers.unit_claims(found.latency), f"{found.lanes} {found.latency}"
    return subject("pim_unit", part, claims, partial(timers.Reads, make), key, around=streams.freed)


def _channel(part: str) -> Subject:
    """Of as few banks, rows and columns as show all there is to show."""
    device = _part("pim_channel", part)
    few = msgspec.structs.replace(device.organization, bank_groups=2, banks_per_group=2, rows=4, columns=4)
    make = partial(PimChannel, msgspec.structs.replace(device, organization=few))
    latency = channel.latency_of(make())
    key = f"{make().unit} {make().table.names} {latency}"
    return subject(
        "pim_channel", part, channel.claims(latency), partial(channel.Channel, make), key, around=channel.any_commands
    )


def _npu_channel(part: str) -> Subject:
    """With the part's timings; situations are sought, and twins caught, with short ones."""
    device, claims = _part("npu_pim_channel", part), npu_channel.CLAIMS

    def spec(task: Task) -> PimChannelSpec:
        return npu_channel.small(device, short=task in ("see", "break"))

    def question(name: str, own: bool, task: Task, twin: Any) -> str:
        setup = partial(npu_channel.Channel, partial(Controller, spec(task)))
        return ClaimQuestion(setup, claims[name], task, 0, twin).rtlil()

    def key(name: str, own: bool, task: Task, twin: Any) -> list[str]:
        return [f"{spec(task)}", name, task, repr(twin)]

    return Subject("npu_pim_channel", part, claims, None, question, key, "the part's")


def _vectors(block: str, part: str) -> Subject:
    setup = partial(streams.make, streams.Flows, VECTORS[block])
    return subject(block, part, streams.VECTOR_CLAIMS, setup, str(SHORT), around=streams.freed)


def _unary(name: str, part: str) -> Subject:
    block = f"asic_{name}"
    claims: dict[str, Any] = {"function": function_of(name), **streams.PIPE_CLAIMS}
    setup = partial(streams.make, streams.Pipe, partial(BLOCKS[block].build, None))
    return subject(block, part, claims, setup, "", around=streams.freed)


def _numbers(block: str, part: str) -> Subject:
    claims: dict[str, Claim] = numbers.CLAIMS[block]
    around = partial(streams.standing_in, numbers.stand_in) if block == "bf16_tree" else nullcontext
    return subject(block, part, claims, numbers.SETUPS[block], "", around=around)


def _vector_unit(part: str) -> Subject:
    return subject("npu_vector", part, vector_unit.CLAIMS, vector_unit.Turns, "")


def _part(block: str, part: str) -> Part:
    device: Part = load_part(part).value
    build(block, part, device)
    return device


CLAIMED: dict[str, Callable[..., Subject]] = {
    "sequencer_axi": _axi,
    "timer": _timer,
    **{block: partial(_numbers, block) for block in numbers.CLAIMS},
    "pim_unit": _unit,
    "pim_channel": _channel,
    "npu_pim_channel": _npu_channel,
    **{f"asic_{name}": partial(_unary, name) for name in UNARY},
    **{block: partial(_vectors, block) for block in VECTORS},
    "npu_vector": _vector_unit,
    "interleave": _interleave,
}
