"""A part as a controller sees it that knows no PIM, no pseudo channels, nor the devices behind its pins."""

import msgspec

from pimloom.arch.part import Part
from pimloom.arch.standard import join_tables


def one_channel(part: Part) -> Part:
    """One pseudo channel of the part as a channel of its own, whose devices are one with all their currents.

    Pseudo channels share a command bus; each has one of its own here, as HBM has a bus for rows and one for columns and
    a controller of one pseudo channel sends at most one command in a clock over both [design].
    """
    org = part.organization
    if org.pseudo_channels == part.devices == 1:
        return part
    n, share = org.pseudo_channels, part.devices / org.pseudo_channels
    own = {name: getattr(org, name) // n for name in ("dq_bits", "capacity_bytes")}
    current = {name: type(value)(value * share) for name, value in part.current.items()}
    organization = msgspec.structs.replace(org, pseudo_channels=1, **own)
    return msgspec.structs.replace(part, organization=organization, current=current, devices=1)


def without_pim(part: Part) -> Part:
    """The part without its PIM commands and their timings."""
    plain = join_tables(part.standard, None)
    timing = {name: time for name, time in part.timing.items() if name in plain.timings or name in plain.optional}
    return msgspec.structs.replace(part, pim=None, timing=timing)
