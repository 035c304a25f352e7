"""A part behind a controller: the `Memory` of `pimloom trace`."""

from collections.abc import Mapping

from pimloom.arch.document import short
from pimloom.arch.error import UserError
from pimloom.arch.load import nearest
from pimloom.arch.memory import FIELDS, Currents, Memory, Policy
from pimloom.arch.part import Part
from pimloom.arch.standard import join_tables
from pimloom.arch.table import compile_table
from pimloom.arch.units import BITS_PER_BYTE

# Neighbours in the address lie in different bank groups, so that a stream waits for tCCD_S and not for tCCD_L.
MAPPING = "row,rank,bank,column,bank_group,pseudo_channel,channel"


def part_memory(name: str, part: Part, policy: Policy, channels: int = 1, mapping: str = MAPPING) -> Memory:
    """`channels` channels of a part behind a controller each; mapping: see `parse_mapping`. Raises UserError."""
    org = part.organization
    access_bytes = org.access_bits // BITS_PER_BYTE
    sizes = {
        "channel": channels,
        "pseudo_channel": org.pseudo_channels,
        "rank": org.ranks,
        "bank_group": org.bank_groups,
        "bank": org.banks_per_group,
        "row": org.rows,
        "column": org.columns,
    }
    for field, size in {**sizes, "access": access_bytes}.items():
        if size & (size - 1):
            raise UserError(f"{name}: expected a power of two of {field.replace('access', 'access byte')}s, got {size}")
    widths = {field: size.bit_length() - 1 for field, size in sizes.items()}
    clocks = {timing: part.cycles(timing) for timing in part.timing}
    currents = Currents(part.VDD, dict(part.current), part.devices / org.pseudo_channels) if part.current else None
    return Memory(
        name=name,
        table=compile_table(part),
        channels=channels,
        tCK_ps=part.tCK_ps,
        clocks=clocks,
        access_bytes=access_bytes,
        offset_bits=access_bytes.bit_length() - 1,
        address=parse_mapping(mapping, widths),
        peak_gb_s=part.peak_gb_s,
        policy=policy,
        currents=currents,
        interface_pj=part.io_pj_per_bit * org.access_bits,
        postponed=join_tables(part.standard, None).postponed,
    )


def parse_mapping(text: str, widths: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Fields of an address, most significant first, as (field, bits) from the least significant on.

    A field may come in pieces, `column:3` being its three lowest bits not yet given; one without bits may be left out.

    >>> parse_mapping("row,column,bank,column:2", {"row": 14, "bank": 2, "column": 7})
    (('column', 2), ('bank', 2), ('column', 5), ('row', 14))
    """
    left, found, seen = {field: widths.get(field, 0) for field in FIELDS}, [], set()
    for piece in reversed(text.split(",")):
        field, _, bits = piece.strip().partition(":")
        if field not in left:
            raise UserError(f"--mapping {text}: unknown field {field!r}{nearest(field, FIELDS)}; {', '.join(FIELDS)}")
        if bits and not (bits.isascii() and bits.isdecimal() and len(bits) < 5):
            raise UserError(f"--mapping {text}: expected a number of bits after {field}:, got {short(bits)!r}")
        take = int(bits) if bits else left[field]
        if take > left[field] or (field in seen and not take):
            raise UserError(f"--mapping {text}: its pieces of {field} have more than its {widths.get(field, 0)} bits")
        seen.add(field)
        left[field] -= take
        if take:
            found.append((field, take))
    if missing := [field for field, bits in left.items() if bits]:
        raise UserError(f"--mapping {text}: {left[missing[0]]} bits of {missing[0]} are missing")
    return tuple(found)
