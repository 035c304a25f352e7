"""What devices that share each layer send one another, stage by stage."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pimloom.arch.link import Link
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.cycle_sim.link import all_gather_ps, all_reduce_bytes, all_reduce_ps
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.workload.op import Op

ON_PIM = ("logit", "attend")


class Exchange(NamedTuple):
    """By stage: the time of its all-reduces, and that by which they lengthen it [cycles]; bytes over all links."""

    all_cyc: dict[str, int]
    exposed_cyc: dict[str, int]
    sent_bytes: dict[str, int]


def exchange(
    shard: Shard,
    talk: Mapping[str, Sequence[Op]],
    stages: Mapping[str, int],
    operators: Mapping[str, int],
    clock_ps: int,
) -> Exchange:
    """All-reduces of a layer over the shard's devices. talk: by stage; stages, operators: as simulated.

    Operators of the NPU wait for an all-reduce, PIM does not: a stage becomes longer where NPU and all-reduces together
    outlast it. What the memory would gain from an NPU that waits is left out.
    """
    found = Exchange(*(dict.fromkeys(stages, 0) for _ in range(3)))
    for name, sums in talk.items():
        if not shard.rules.devices_talk or not sums:
            continue
        sizes = [op.rows * op.n_out * shard.element_bytes for op in sums]
        took = sum(ceil_div(all_reduce_ps(shard.system.link, n, shard.tp), clock_ps) for n in sizes)
        on_npu = sum(
            cyc for key, cyc in operators.items() if key.split(".")[0] == name and key.split(".")[1] not in ON_PIM
        )
        found.all_cyc[name] = took
        found.exposed_cyc[name] = max(on_npu + took - stages[name], 0)
        found.sent_bytes[name] = sum(all_reduce_bytes(n, shard.tp) for n in sizes)
    return found


def exchanged(link: Link, op: Op) -> tuple[int, int]:
    """What devices send one another: how long it takes [ps], and bytes over all links."""
    size = ceil_div(op.rows * op.n_out * op.bits.activation, BITS_PER_BYTE)
    if op.kind == "all_reduce":
        return all_reduce_ps(link, size, op.devices), all_reduce_bytes(size, op.devices)
    return all_gather_ps(link, size * op.devices, op.devices), (op.devices - 1) * op.devices * size
