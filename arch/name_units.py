"""The unit that a name carries in its ending, as CONVENTIONS.md has it."""

import re

from pimloom.arch.units import GIB, KIB, MIB

SUFFIXES = {
    "per_s_per_device": "1/s",
    "per_s": "1/s",
    "per_j": "1/J",
    "per_usd": "1/USD",
    "gb_s": "GB/s",
    "s": "s",
    "us": "µs",
    "ns": "ns",
    "j": "J",
    "w": "W",
    "mw": "mW",
    "pj": "pJ",
    "ps": "ps",
    "ck": "CK",
    "cyc": "cycles",
    "mhz": "MHz",
    "ghz": "GHz",
    "mm2": "mm²",
    "um2": "µm²",
    "bytes": "B",
    "bits": "bit",
    "gbps": "Gb/s",
}
LARGEST = 1e15  # that is told without an exponent


def unit_of_name(name: str) -> str | None:
    """The unit, by the ending of the name or of its first part; None for none.

    >>> [unit_of_name(name) for name in ("tokens_per_s", "requests_per_j", "energy_by_cause_j.mac", "dram.channels")]
    ['1/s', '1/J', 'J', None]
    """
    if not re.fullmatch(r"[\w.]+", name):
        return None
    for part in (name, *reversed(name.split("."))):
        for suffix, found in SUFFIXES.items():
            if part.endswith(f"_{suffix}"):
                return found
    return None


def figure(value: float, digits: int) -> str:
    """A number with so many digits, larger ones whole: no exponent beside numbers without one.

    >>> figure(3.14159, 4), figure(19123.4, 4), figure(4021.4, 4)
    ('3.142', '19,123', '4,021')
    """
    whole = 10**digits <= abs(value) < LARGEST
    return format(value, ",.0f" if whole else f",.{digits}g")


def counted(count: int, word: str) -> str:
    """
    >>> counted(1, "request"), counted(2048, "token")
    ('1 request', '2,048 tokens')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def some_layers(layers: int, of: int) -> str:
    """What a title says of results that are of a part of a model's layers; nothing of all of them.

    >>> some_layers(2, 12), some_layers(12, 12)
    (', 2 of 12 layers', '')
    """
    return f", {layers:,} of {counted(of, 'layer')}" if layers < of else ""


def capacity(size_bytes: int) -> str:
    """A number of bytes in the largest unit that divides it.

    >>> capacity(16 * GIB), capacity(1536 * KIB), capacity(100)
    ('16 GiB', '1536 KiB', '100 bytes')
    """
    for name, unit in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} bytes"
