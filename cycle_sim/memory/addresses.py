"""Byte addresses to coordinates."""

from typing import NamedTuple

import numpy as np

from pimloom.arch.memory import Memory
from pimloom.cycle_sim.compiled.kernel import entry

FIELDS = ("channel", "bank", "row", "column")  # a channel's banks counted through, pseudo channel and rank included


class AddressMap(NamedTuple):
    """piece[k] = (bit of the address, mask, field of FIELDS, bit of the field); limit: first address out of reach."""

    piece: np.ndarray
    limit: int


def address_map(memory: Memory) -> AddressMap:
    """How the memory's addresses map."""
    size = memory.table.rules.size.tolist()
    width = dict.fromkeys(("channel", "pseudo_channel", "rank", "bank_group", "bank", "row", "column"), 0)
    for field, bits in memory.address:
        width[field] += bits
    inner = {"bank": 0, "bank_group": width["bank"]}
    inner["rank"] = inner["bank_group"] + width["bank_group"]
    inner["pseudo_channel"] = inner["rank"] + width["rank"]
    if 1 << inner["pseudo_channel"] + width["pseudo_channel"] != size[4]:
        raise ValueError(f"addresses reach {1 << inner['pseudo_channel'] + width['pseudo_channel']} of {size[4]} banks")
    bit, filled, pieces = memory.offset_bits, dict.fromkeys(width, 0), []
    for field, bits in memory.address:
        if bits:
            at = inner.get(field, 0) + filled[field]
            pieces.append((bit, (1 << bits) - 1, FIELDS.index("bank" if field in inner else field), at))
        bit, filled[field] = bit + bits, filled[field] + bits
    return AddressMap(np.array(pieces, np.int64).reshape(-1, 4), 1 << bit)


@entry
def decode(piece, address, found):
    """found[f, i] = coordinate f of address[i], in the order of FIELDS."""
    found[:] = 0
    for k in range(piece.shape[0]):
        bit, mask, f, at = piece[k, 0], piece[k, 1], piece[k, 2], piece[k, 3]
        for i in range(address.shape[0]):
            found[f, i] |= ((address[i] >> bit) & mask) << at
