"""What devices that share each layer send one another, stage by stage."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.link import all_reduce_bytes, all_reduce_ps
from pimloom.mappers.interleave import stages as schedule
from pimloom.systems.devices.npu_pim.shard import Shard

ON_PIM = ("logit", "attend")
IN_A_STAGE = 2  # all-reduces of the rows of a sub-batch: after projection and FFN; one of their sum if parallel


class Exchange(NamedTuple):
    """By stage: the time of its all-reduces, and that by which they lengthen it [cycles]; bytes over all links."""

    all_cyc: dict[str, int]
    exposed_cyc: dict[str, int]
    sent_bytes: dict[str, int]


def exchange(
    shard: Shard, sub_batches: Sequence[int], stages: Mapping[str, int], operators: Mapping[str, int], clock_ps: int
) -> Exchange:
    """All-reduces of a layer over the shard's devices. sub_batches: requests of each; stages, operators: as simulated.

    Operators of the NPU wait for an all-reduce, PIM does not: a stage becomes longer where NPU and all-reduces together
    outlast it. What the memory would gain from an NPU that waits is left out.
    """
    silent, times = shard.system.faults.silent_devices, 1 if shard.llm.parallel_attention else IN_A_STAGE
    found = Exchange(*(dict.fromkeys(stages, 0) for _ in range(3)))
    for name, through, *_ in schedule(len(sub_batches)):
        if silent or through is None:
            continue
        n_bytes = sub_batches[through] * shard.llm.hidden_size * shard.element_bytes
        took = times * ceil_div(all_reduce_ps(shard.system.link, n_bytes, shard.tp), clock_ps)
        on_npu = sum(
            cyc for key, cyc in operators.items() if key.split(".")[0] == name and key.split(".")[1] not in ON_PIM
        )
        found.all_cyc[name] = took
        found.exposed_cyc[name] = max(on_npu + took - stages[name], 0)
        found.sent_bytes[name] = times * all_reduce_bytes(n_bytes, shard.tp)
    return found
