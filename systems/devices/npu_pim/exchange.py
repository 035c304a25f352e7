"""What devices that share each layer send one another, stage by stage."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pimloom.arch.link import Fabric
from pimloom.arch.units import BITS_PER_BYTE, ceil_div
from pimloom.cycle_sim.link import Sent, all_gather, all_reduce, all_to_all
from pimloom.systems.devices.npu_pim.shard import Shard
from pimloom.workload.op import Op

ON_PIM = ("logit", "attend")


class Exchange(NamedTuple):
    """By stage: the time of its all-reduces, and that by which they lengthen it [cycles]; what they send over all
    links, bytes and pJ."""

    all_cyc: dict[str, int]
    exposed_cyc: dict[str, int]
    sent_bytes: dict[str, int]
    sent_pj: dict[str, float]


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
    none, free = dict.fromkeys(stages, 0), dict.fromkeys(stages, 0.0)
    found = Exchange(dict(none), dict(none), dict(none), free)
    fabric = shard.system.fabric(shard.tp, "the system")
    for name, sums in talk.items():
        if not shard.rules.devices_talk or not sums:
            continue
        every = [all_reduce(fabric, op.rows * op.n_out * shard.element_bytes, shard.tp) for op in sums]
        took = sum(ceil_div(sent.ps, clock_ps) for sent in every)
        on_npu = sum(
            cyc for key, cyc in operators.items() if key.split(".")[0] == name and key.split(".")[1] not in ON_PIM
        )
        found.all_cyc[name] = took
        found.exposed_cyc[name] = max(on_npu + took - stages[name], 0)
        found.sent_bytes[name] = sum(sent.all_bytes for sent in every)
        found.sent_pj[name] = sum(sent.pj(fabric) for sent in every)
    return found


def exchanged(fabric: Fabric, op: Op, bits: int | None = None) -> Sent:
    """What devices send one another in an operator of LINKS; bits: of an element, None: as the operator has them."""
    size = ceil_div(op.rows * op.n_out * (bits or op.bits.activation), BITS_PER_BYTE)
    if op.kind == "all_reduce":
        return all_reduce(fabric, size, op.devices)
    if op.kind == "all_to_all":
        return all_to_all(fabric, size, op.devices)
    return all_gather(fabric, size * op.devices, op.devices)
