"""An NPU with or without PIM as a device: a layer is simulated command by command, an iteration laid out from it."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from pimloom.arch.command import ON_THE_PINS, Role
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.part import Part
from pimloom.arch.system import System
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE, PS_PER_S, ceil_div, mhz_to_ps
from pimloom.cycle_sim.npu_pim.machine import Account
from pimloom.mappers.kv_pages import KvPages
from pimloom.systems.devices.device import Capacity, Share
from pimloom.systems.devices.npu_pim.exchange import ON_PIM
from pimloom.systems.devices.npu_pim.laid import placed
from pimloom.systems.devices.npu_pim.outline import Outliner
from pimloom.systems.devices.npu_pim.outside import ARRAYS, LINK, VECTORS, Outside
from pimloom.systems.devices.npu_pim.parallel import first_part
from pimloom.systems.devices.npu_pim.serve import Iteration, Simulated, served_of, simulate
from pimloom.systems.devices.npu_pim.served import sums
from pimloom.systems.devices.npu_pim.share import shard_of, tokens_that_fit, weight_bytes
from pimloom.systems.devices.npu_pim.stage_times import merged
from pimloom.systems.devices.npu_pim.undivided import fitted
from pimloom.systems.devices.run import Run, Span
from pimloom.workload.batch import Batch
from pimloom.workload.need import ONE, layer_macs, layer_need
from pimloom.workload.op import Op
from pimloom.workload.shard import Shard

PIM = "PIM"


class NpuDevice:
    """`tp` devices that share each layer of a model; see `Device`. New tokens of a request that are verified go through
    the arrays together, and to PIM one after the other, each with its part of the context: a GEMV takes one query."""

    most_requests: int | None = None
    in_order = False
    exact_steps = 96

    def __init__(self, system: System, llm: LlmSpec, share: Share) -> None:
        self.system, self.llm, self.share = system, llm, share
        self._shard = shard_of(system, llm, share.tp)  # raises what cannot be cut
        if share.outside and share.fidelity == "released":
            raise UserError(f"--fidelity released: no simulator of {system.name} has an LM head; leave one out")
        self._outside = Outside(system, llm, share.tp) if share.outside else None
        hardware = system.of_kind(NpuPimSystem)
        self.outline = Outliner(hardware, llm, share.layers).of
        self.channels = hardware.dram.channels if hardware.dram.row_buffers != "none" else 1

    def can_run(self, ops: Sequence[Op]) -> str | None:
        """Everything that `shard_of` lets pass."""
        return None

    def step(self, batch: Batch, channel: np.ndarray | None = None) -> Run:
        """Requests lie in these channels, None: where Algorithm 2 puts them; a batch of prompts alone runs undivided,
        as PIM has no part in it. Raises UserError."""
        requests = batch.requests
        prompts = all(at.phase == "prefill" for at in requests)
        tokens = np.array([at.context for at in requests], np.int64)
        new = np.array([at.new for at in requests], np.int64) if any(at.phase != "decode" for at in requests) else None
        checked = [at.phase == "verify" for at in requests]
        system = fitted(self.system, 1 if prompts else len(requests))
        share = self.share
        ends = self._outside is not None
        found = simulate(
            system, self.llm, tokens, channel, tp=share.tp, layers=share.layers, new=new, ends=ends, checked=checked
        )
        macs = layer_macs(self.llm, batch, Shard(tp=share.tp), share.layers)
        layers = run_of(found, system, share, macs)
        return self._outside.around(batch, layers) if self._outside else layers

    def check(self, batch: Batch) -> None:
        """Raise UserError unless the batch fits, with channels as Algorithm 2 finds them."""
        share, llm = self.share, self.llm
        shard = shard_of(self.system, llm, share.tp, ends=self._outside is not None)
        contexts = np.array([at.context for at in batch.requests], np.int64)
        windows = list(dict.fromkeys(llm.window_of(layer) for layer in range(share.layers)))
        placed(self.system, shard, contexts, None, share.layers, windows)

    def kv_pages(self, tokens: int) -> KvPages:
        """Pages of a channel in which the rows of a layer are as many bytes as keys and values of so many tokens."""
        shape = self._shard.shape
        return KvPages(shape, 1, 0, tokens * 2 * shape.width // (shape.row * shape.banks), allotted=True)

    def capacity(self) -> Capacity:
        """Of one device."""
        hardware, part, share = self.system.of_kind(NpuPimSystem), self.system.memory, self.share
        bits, there = hardware.npu.element_bits, self._shard.system.dram.channels * part.organization.capacity_bytes
        ends = self._outside is not None
        return Capacity(
            there,
            weight_bytes(self.llm, share.tp, share.layers, bits, ends=ends),
            layer_need(self.llm, ONE, Shard(tp=share.tp), share.layers).cache * bits // BITS_PER_BYTE,
            tokens_that_fit(self.llm, share.tp, share.layers, bits, there, ends=ends),
        )


device = NpuDevice


def decode_in_channels(
    system: System, llm: LlmSpec, share: Share, pp: int, tokens: np.ndarray, channel: np.ndarray | None
) -> Run:
    """A decode iteration of requests that lie in these channels, None: where Algorithm 2 puts them; with `pp` groups of
    devices the first micro-batch on the first of them. Raises UserError."""
    system, tokens, channel, layers = first_part(system, llm, tokens, channel, tp=share.tp, pp=pp, layers=share.layers)
    found = simulate(system, llm, tokens, channel, tp=share.tp, layers=layers)
    macs = layer_macs(llm, Batch.decode(tokens.tolist()), Shard(tp=share.tp), layers)
    return run_of(found, system, share, macs)


def run_of(found: Iteration, system: System, share: Share, macs: int) -> Run:
    """The iteration of a simulated layer. macs: of all its operators, wherever they run. Raises UserError."""
    told = served_of(found, system, fidelity=share.fidelity, spec_digest="")
    part = system.part
    assert part is not None
    commands = sums([_commands(one) for one in found.each])
    on_arrays = sum(map(_macs, found.each))
    pins = compile_table(part).total(commands, ON_THE_PINS)
    allreduce_ps = round(told.allreduce_s * PS_PER_S)
    return Run(
        end_ps=told.iteration_cyc * told.clock_ps,
        spans=tuple(sorted(_spans(found, told.clock_ps))),
        commands=commands,
        interface_bytes=pins * part.organization.access_bits // BITS_PER_BYTE,
        link_bytes=told.link_bytes,
        macs=macs,
        least_ps=_least_ps(found.each[0], part, commands, on_arrays, pins) | {"link": allreduce_ps},
        device_j=told.iteration_energy_by_cause_j,
        devices=share.tp,
    )


def _spans(found: Iteration, clock_ps: int) -> Iterator[Span]:
    """Operators of all layers; an all-reduce ends with its stage, which it may lengthen."""
    inside, at = [_inside(one) for one in found.each], 0
    for place, name in found.order:
        for operator, resource, start, end in inside[place][name]:
            yield Span((at + start) * clock_ps, (at + end) * clock_ps, operator, resource)
        here = found.each[place]
        at += here.stages[name] + here.talk.exposed_cyc[name]
        if took := here.talk.all_cyc[name]:
            yield Span((at - took) * clock_ps, at * clock_ps, "all-reduce", LINK)


def _inside(found: Simulated) -> dict[str, list[tuple[str, str, int, int]]]:
    """Of each stage its operators: name, resource, start and end [CK] after the stage's beginning."""
    inside, first, begin = dict[str, list[tuple[str, str, int, int]]](), 0, 0
    layer, operators = found.laid.layer, found.ran.operators
    for stage, last in layer.stages.items():
        mine = range(first, max(last) + 1)
        on_arrays = {operators[o][0] for o in mine if layer.work[o].macs}
        inside[stage] = [
            (name, PIM if name in ON_PIM else ARRAYS if name in on_arrays else VECTORS, start - begin, end - begin)
            for name, start, end in merged(operators[o] for o in mine)
        ]
        first, begin = max(last) + 1, begin + found.stages[stage]
    return inside


def _commands(found: Simulated) -> dict[str, int]:
    """Commands of an iteration, of all channels of a device, from the accounts of its stages."""
    total, before = Counter[str](), Account(0, 0, 0, {})
    for stage, last in found.laid.layer.stages.items():
        after = max((found.ran.accounts[o] for o in last), key=lambda account: account.ck)
        for name, n in after.commands.items():
            total[name] += (n - before.commands.get(name, 0)) * found.times[stage]
        before = after
    return dict(total)


def _macs(found: Simulated) -> int:
    """Multiply-accumulates of an iteration on the arrays of a device."""
    layer, total, first = found.laid.layer, 0, 0
    for stage, last in layer.stages.items():
        total += sum(layer.work[o].macs for o in range(first, max(last) + 1)) * found.times[stage]
        first = max(last) + 1
    return total


def _least_ps(found: Simulated, part: Part, commands: dict[str, int], macs: int, pins: int) -> dict[str, int]:
    """Arrays that all multiply in every cycle, or PIM whose COMPs follow one another; data buses that are never idle;
    a command in every clock of every channel."""
    hardware = found.laid.layer.shard.system
    npu, channels = hardware.npu, hardware.dram.channels
    arrays = ceil_div(macs, npu.arrays * npu.rows**2) * mhz_to_ps(npu.clock_mhz)
    table = compile_table(part)
    comps = table.total(commands, {Role.MULTIPLY})
    pim = ceil_div(comps * part.cycles("nCOMP"), channels) * part.tCK_ps if comps else 0
    issued = sum(commands.get(name, 0) for name in table.names)  # without those that others repeat
    return {
        "compute": max(arrays, pim),
        "memory bandwidth": ceil_div(pins * part.cycles("nBL"), channels) * part.tCK_ps,
        "commands": ceil_div(issued, channels) * part.tCK_ps,
    }
