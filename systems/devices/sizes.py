"""The size of a system (devices, memory bandwidth, area), and its rate per unit of each."""

from collections.abc import Mapping, Sequence
from typing import Any

from pimloom.arch.attacc import AttAccSystem
from pimloom.arch.cent import CentSystem
from pimloom.arch.composition import ComposedSystem
from pimloom.arch.duplex_system import DuplexSystem
from pimloom.arch.name_units import counted, figure
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.pim_system import PimSystem
from pimloom.arch.roofline import RooflineSystem
from pimloom.arch.system import System
from pimloom.systems.devices.traits import devices_of

SIZES = {"device": "device", "memory_gb_s": "GB/s of memory", "w": "W", "mm2": "mm² of logic", "usd_per_h": "$/h"}
DIGITS = 4  # of a printed rate per unit of a size
STACK_CHANNELS = 16  # of HBM3, as AttAcc's stacks have them
PROCESSORS = 2  # of a host: its file has one of them


def memory_gb_s(system: System, tp: int) -> float:
    """Peak rate of the data pins of all memories of all devices [GB/s]; `tp` devices share each layer. Units at the
    banks can read faster.

    >>> from pimloom.arch.system import load_system
    >>> [round(memory_gb_s(load_system(name), tp)) for name, tp in (("gpu_a100", 2), ("pim_gpt", 1), ("duplex", 4))]
    [3110, 256, 13312]
    """
    devices, spec = devices_of(system, tp), system.spec
    match spec:
        case RooflineSystem():
            return spec.memory_gb_s * devices
        case PimSystem() | NpuPimSystem():
            return system.memory.peak_gb_s * spec.dram.channels * devices
        case CentSystem():
            assert system.aim is not None
            return system.aim.part.peak_gb_s * system.aim.spec.channels * devices
        case DuplexSystem():
            assert system.duplex is not None
            return system.duplex.stack_gb_s * system.duplex.spec.stacks * devices
        case AttAccSystem():
            stacks = spec.stacks.each * system.memory.peak_gb_s * STACK_CHANNELS if spec.stacks.each else 0
            return (spec.gpu.memory_gb_s + stacks) * devices + (
                PROCESSORS * spec.host.memory_gb_s if spec.host else 0.0
            )
        case ComposedSystem():
            return sum(_memory_gb_s(system, name, memory) for name, memory in spec.memories.items()) * devices
    raise AssertionError(spec)


def _memory_gb_s(system: System, name: str, memory: Any) -> float:
    """The peak rate of a memory of a composed system [GB/s]."""
    gb_s: float = system.parts[name].peak_gb_s * memory.channels if name in system.parts else memory.gb_s
    return gb_s


def by_size(rate: float, sizes: Mapping[str, float | None]) -> dict[str, float | None]:
    """A rate per unit of each size; None if a size is not known."""
    return {name: rate / size if size else None for name, size in sizes.items()}


def leaders(rates: Mapping[str, Mapping[str, float | None]], size: str) -> list[str]:
    """The systems with the largest rate per unit of this size, several if their rates are equal as printed; none if a
    rate is unknown.

    >>> leaders({"a": {"w": 2.00004}, "b": {"w": 2.0}}, "w"), leaders({"a": {"w": 1.0}, "b": {"w": None}}, "w")
    (['a', 'b'], [])
    """
    found = {system: rate for system, each in rates.items() if (rate := each[size]) is not None}
    if len(found) < max(len(rates), 2):
        return []
    most = figure(max(found.values()), DIGITS)
    return [system for system, rate in found.items() if figure(rate, DIGITS) == most]


def most_by_size(rates: Mapping[str, Mapping[str, float | None]], size: str) -> str | None:
    """The one leader of this size, None if there is none or a tie; see `leaders`.

    >>> most_by_size({"a": {"w": 1.0}, "b": {"w": 2.0}}, "w"), most_by_size({"a": {"w": 2.0}, "b": {"w": 2.0}}, "w")
    ('b', None)
    """
    first = leaders(rates, size)
    return first[0] if len(first) == 1 else None


def size_text(devices: int, gb_s: float) -> str:
    """
    >>> size_text(4, 13312.0), size_text(1, 256.0)
    ('4 devices, 13.3 TB/s', '1 device, 256 GB/s')
    """
    rate = f"{figure(gb_s / 1000, 3)} TB/s" if gb_s >= 1000 else f"{figure(gb_s, 3)} GB/s"
    return f"{counted(devices, 'device')}, {rate}"


def ahead(names: Sequence[str], winners: Mapping[str, Sequence[str]]) -> str:
    """A sentence with the fastest system per unit of each size, or those that tie; empty for one system.

    >>> ahead(["a", "b"], {"device": ["b"], "memory_gb_s": ["a", "b"], "w": []})
    'Most tokens/s per device: b; per GB/s of memory: a tie of a and b.'
    """
    if len(names) < 2:
        return ""
    by = dict[str, list[str]]()
    for size, first in winners.items():
        if first:
            by.setdefault(first[0] if len(first) == 1 else f"a tie of {listed(first)}", []).append(SIZES[size])
    said = [f"{' and per '.join(sizes)}: {name}" for name, sizes in by.items()]
    return f"Most tokens/s per {'; per '.join(said)}." if said else ""


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
