"""One iteration of batched decoding on an NPU with PIM: run a layer, or each different one, and say what it took."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import System
from pimloom.arch.units import J_PER_PJ, S_PER_PS
from pimloom.arch.version import __version__
from pimloom.cycle_sim.npu_pim.machine import PimError, Ran, run
from pimloom.energy.ledger import EnergyError
from pimloom.mappers.interleave import stages as schedule
from pimloom.mappers.interleave import turns
from pimloom.systems.devices.npu_pim.energy import idle_pj, stage_energy
from pimloom.systems.devices.npu_pim.exchange import Exchange, exchange
from pimloom.systems.devices.npu_pim.laid import Laid, lay_out
from pimloom.systems.devices.npu_pim.served import LayerKind, Served, energies, of_all, served_digest, sums
from pimloom.systems.devices.npu_pim.share import Layers
from pimloom.systems.devices.npu_pim.stage_times import stage_times, total
from pimloom.workload.derive import equal_layers

PORTS = 2  # ways from the NPU into a channel: of its own requests and of PIM's


class Simulated(NamedTuple):
    """A layer that ran, with sub-batches two, `pair`. stages, operators: their clocks; times: how often each stage runs
    in an iteration; talk: what devices that share it send one another."""

    laid: Laid
    ran: Ran
    stages: dict[str, int]
    operators: dict[str, int]
    times: dict[str, int]
    talk: Exchange
    pair: tuple[int, int]


class Iteration(NamedTuple):
    """Every different layer, or pair of layers, simulated once; order: which of them, and which stage of it, runs one
    after the other."""

    each: tuple[Simulated, ...]
    order: tuple[tuple[int, str], ...]
    layers: int


def serve(
    system: System,
    llm: LlmSpec,
    tokens: np.ndarray,
    channel: np.ndarray | None,
    *,
    tp: int,
    layers: Layers,
    fidelity: str,
    new: np.ndarray | None = None,
) -> Served:
    """One iteration: contexts of `tokens`, in `channel` or where Algorithm 2 puts them; the last `new` of each context,
    or one if None, are computed, those before are in the cache. Raises UserError."""
    found = simulate(system, llm, tokens, channel, tp=tp, layers=layers, new=new)
    asked = served_digest(system, llm, tokens, channel, new, tp=tp, layers=found.layers, fidelity=fidelity)
    return served_of(found, system, fidelity=fidelity, spec_digest=asked)


def simulate(
    system: System,
    llm: LlmSpec,
    tokens: np.ndarray,
    channel: np.ndarray | None,
    *,
    tp: int,
    layers: Layers,
    new: np.ndarray | None = None,
    ends: bool = False,
    checked: Sequence[bool] = (),
) -> Iteration:
    """Simulate the layers of an iteration, equal ones once; arguments as for `serve`. ends: embeddings and the LM head
    lie in the memory, too; checked: whether the new tokens of a request are drafts that are verified. Raises
    UserError."""
    hardware = system.of_kind(NpuPimSystem)
    numbers = layers if isinstance(layers, range) else range(layers)
    alike = {layer: group[0] for group in equal_layers(llm, numbers) for layer in group}
    n = hardware.interleave.sub_batches
    order = [((alike[turn.here], alike[turn.then]), turn.stage.name) for turn in turns(n, numbers)]
    pairs, often = list(dict.fromkeys(pair for pair, _ in order)), Counter(order)
    each = []
    for pair in pairs:
        laid = lay_out(
            system, llm, tokens, channel, tp=tp, layers=layers, new=new, pair=pair, ends=ends, checked=checked
        )
        each.append(_ran(system, laid, pair, {stage.name: often[pair, stage.name] for stage in schedule(n)}))
    return Iteration(tuple(each), tuple((pairs.index(pair), name) for pair, name in order), len(numbers))


def _ran(system: System, laid: Laid, pair: tuple[int, int], times: dict[str, int]) -> Simulated:
    layer, shard, part = laid.layer, laid.layer.shard, system.part
    assert part is not None
    try:
        ran = run(laid.spec, shard.system.dram.channels, laid.npu, layer.builder, ports=PORTS)
    except PimError as error:
        raise UserError(f"{system.name}: {error}") from None
    stages, operators = stage_times(layer, ran.operators)
    talk = exchange(shard, layer.talk, stages, operators, part.tCK_ps)
    return Simulated(laid, ran, stages, operators, times, talk, pair)


def served_of(found: Iteration, system: System, *, fidelity: str, spec_digest: str) -> Served:
    """What simulated layers say of the iteration. Raises UserError."""
    laid, part, each = found.each[0].laid, system.part, found.each
    shard = laid.layer.shard
    assert part is not None
    batch, clock_ps, tp = len(laid.layer.batch.requests), part.tCK_ps, shard.tp
    exposed = sum(of_all(one.talk.exposed_cyc, one.times) for one in each)
    sent_bytes = sum(of_all(one.talk.sent_bytes, one.times) for one in each)
    iteration = sum(of_all(one.stages, one.times) for one in each) + exposed
    iteration_s = iteration * clock_ps * S_PER_PS
    link_j = sum(of_all(one.talk.sent_pj, one.times) for one in each) * J_PER_PJ
    try:
        by_stage = [(stage_energy(one.laid.layer, part, one.ran, one.stages), one.times) for one in each]
        waits = idle_pj(shard.system, part, exposed)
        found_energies = energies(by_stage, waits, link_j / tp, tp / batch, iteration_s)
    except EnergyError as error:
        raise UserError(f"{system.name}: {error}; a value of the system is out of range") from None
    kinds = tuple(LayerKind(*one.pair, one.times, one.stages, one.operators) for one in each)
    return Served(
        system=system.name,
        model=shard.llm.name,
        fidelity=fidelity,
        batch=batch,
        tokens=laid.tokens,
        tp=tp,
        layers=found.layers,
        model_layers=shard.llm.num_hidden_layers,
        clock_ps=clock_ps,
        stages_cyc=sums([one.stages for one in each]),
        operators_cyc=sums([one.operators for one in each]),
        total_cyc=sum(total(one.laid.layer, one.ran.total_ck) for one in each),
        iteration_cyc=iteration,
        tokens_per_s=batch / iteration_s,
        commands=sums([one.ran.commands for one in each]),
        memory_requests=sum(sum(one.ran.requests) for one in each),
        **found_energies,
        allreduce_s=sum(of_all(one.talk.all_cyc, one.times) for one in each) * clock_ps * S_PER_PS,
        allreduce_exposed_s=exposed * clock_ps * S_PER_PS,
        link_bytes=sent_bytes,
        link_j=link_j,
        spec_digest=spec_digest,
        version=__version__,
        layer_kinds=kinds if len(kinds) > 1 else (),
    )
