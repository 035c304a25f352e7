"""Time of CENT's CXL link and near-memory unit: closed forms [secondary CENT], Yufeng98/CENT@8c79786, restated."""

from pimloom.arch.cent import CxlLink, NearMemory
from pimloom.arch.units import BITS_PER_BYTE, GIB, NS_PER_S, ceil_div

PORTS, ENDS = 4, 2  # of a way: out of a device, into the switch, out of it, into a device
READ, WRITE, REDUCE = 1, 1, 1  # cycles of a word of the shared buffer, and of a reduction tree


def flits(link: CxlLink, values: int, bits: int) -> int:
    """Flits that hold so many values."""
    return ceil_div(ceil_div(values * bits, BITS_PER_BYTE), link.message_bytes * link.messages_per_flit)


def way_ns(link: CxlLink, devices: int, sent: int) -> float:
    """From a device to others, so many flits [ns]. devices: of the switch, over which its lanes are dealt."""
    fixed = PORTS * link.port_ns + ENDS * link.pcie_ns + link.switch_ns
    rate = (link.lanes // devices) * link.lane_gib_s * GIB * link.lane_share
    return fixed + sent * link.flit_bytes / rate * NS_PER_S


def next_ns(link: CxlLink, devices: int, hidden: int, bits: int) -> float:
    """A token's vector to the device with the next layer [ns]."""
    return way_ns(link, devices, flits(link, hidden, bits))


def shared_ns(link: CxlLink, devices: int, tensor: int, hidden: int, ffn: int, bits: int) -> float:
    """A token through a layer that `tensor` devices share: what they send one another [ns]."""

    def gather(values: int) -> int:
        return flits(link, ceil_div(values, tensor), bits) * (tensor - 1)

    sent = 5 * [flits(link, hidden, bits)] + 5 * [gather(hidden)] + [gather(ffn), flits(link, ffn, bits)]
    return sum(way_ns(link, devices, n) for n in sent)


def near_memory_cyc(unit: NearMemory, hidden: int, heads: int, repeat: int, context: int) -> dict[str, float]:
    """Cycles of the near-memory unit for one token of a layer, by what they are for."""
    add = 2 * unit.units * READ + 1 + WRITE  # of a word in each accumulator, in turn
    exp = unit.units * READ + unit.exp_cyc + WRITE
    per_lane = unit.lanes * unit.units
    norm = hidden / unit.lanes / per_lane * add + READ + WRITE + REDUCE + unit.norm_cyc
    of_head = READ + unit.lanes * WRITE + unit.softmax_cyc / unit.cores + READ
    return {
        "norm": 2 * norm,
        "softmax": context * heads / per_lane * (exp + add) + heads * of_head,
        "rotation": hidden * unit.rotation_cyc / unit.cores * (1 + 1 / repeat),
    }
