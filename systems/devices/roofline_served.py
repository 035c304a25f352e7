"""One iteration of a list of contexts on a roofline, in the fields that `pimloom run --requests` prints."""

from functools import reduce
from math import fsum

import numpy as np

from pimloom.arch.llm import LlmSpec
from pimloom.arch.system import System
from pimloom.arch.units import J_PER_PJ, PS_PER_NS, S_PER_PS
from pimloom.arch.version import __version__
from pimloom.cycle_sim.link import Sent
from pimloom.systems.devices.device import Share
from pimloom.systems.devices.npu_pim.contexts import attended
from pimloom.systems.devices.npu_pim.energy import ledger
from pimloom.systems.devices.npu_pim.parts import batch_of
from pimloom.systems.devices.npu_pim.served import LayerKind, Served, of_all, served_digest, sums
from pimloom.systems.devices.roofline import RooflineDevice
from pimloom.workload.batch import Batch


def serve_gpu(
    system: System, llm: LlmSpec, tokens: np.ndarray, *, tp: int, layers: int, new: np.ndarray | None = None
) -> Served:
    """Decode one token of each request, with contexts of `tokens`, on `tp` GPUs, or compute the last `new` tokens of
    each context in one pass: times as `RooflineDevice` has them, cycles are nanoseconds. Raises UserError."""
    device = RooflineDevice(system, llm, Share(tp, layers, outside=False))
    requests = batch_of(tokens.tolist(), None if new is None else new.tolist())
    kinds, on_links, sent = list[LayerKind](), 0, Sent()
    device.check(requests)
    for group in device.groups:
        stages, operators = _times(device, requests, group[0])
        talk = [device.sent(work.sends) for work in device.works(requests, group[0]) if work.sends]
        sent = reduce(Sent.plus, talk * len(group), sent)
        on_links += len(group) * sum(device.link_ps(one) for one in talk) // PS_PER_NS
        kinds.append(LayerKind(group[0], group[0], dict.fromkeys(stages, len(group)), stages, operators))
    stages = sums([kind.stages_cyc for kind in kinds])
    total, iteration = sum(stages.values()), sum(of_all(kind.stages_cyc, kind.runs) for kind in kinds) + on_links
    iteration_s = iteration * PS_PER_NS * S_PER_PS
    by_cause = device.joules(iteration * PS_PER_NS, sent)
    joules = fsum(by_cause.values())
    simulated_j = device.spec.power_w * (total * PS_PER_NS * S_PER_PS)
    return Served(
        system=system.name,
        model=llm.name,
        fidelity="physical",
        batch=len(tokens),
        tokens=int(attended(llm, tokens).sum()),
        tp=tp,
        layers=layers,
        model_layers=llm.num_hidden_layers,
        clock_ps=PS_PER_NS,
        stages_cyc=stages,
        operators_cyc=sums([kind.operators_cyc for kind in kinds]),
        total_cyc=total,
        iteration_cyc=iteration,
        tokens_per_s=len(tokens) / iteration_s,
        commands={},
        memory_requests=0,
        energy_pj_by_cause=ledger(system.name, {"power x time": simulated_j / J_PER_PJ}).pj,
        iteration_energy_by_cause_j=by_cause,
        iteration_energy_j=joules,
        energy_per_token_j=tp * joules / len(tokens),
        power_w=joules / iteration_s,
        allreduce_s=on_links * PS_PER_NS * S_PER_PS,
        allreduce_exposed_s=on_links * PS_PER_NS * S_PER_PS,
        link_bytes=sent.all_bytes,
        link_j=by_cause.get("link", 0.0) * tp,
        spec_digest=served_digest(system, llm, tokens, None, new, tp=tp, layers=layers, fidelity="physical"),
        version=__version__,
        layer_kinds=tuple(kinds) if len(kinds) > 1 else (),
    )


def _times(device: RooflineDevice, batch: Batch, layer: int) -> tuple[dict[str, int], dict[str, int]]:
    """Times of a layer's stages and operators [ns], without collectives."""
    stages, times = dict.fromkeys("ABE", 0), dict[str, int]()
    for each in device.works(batch, layer):
        if each.sends:
            continue
        ns = device.work_ps(each) // PS_PER_NS
        key, n = f"{each.stage}.{each.name}", 2
        while key in times:
            key, n = f"{each.stage}.{each.name}.{n}", n + 1
        times[key] = ns
        stages[each.stage] += ns
    if launch := device.launch_ps(device.kernels) // PS_PER_NS:
        times["E.launches"] = launch
        stages["E"] += launch
    return stages, times
