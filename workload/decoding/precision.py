"""Operators of unequal devices that train together, each in the widest format that slows none of them down (QSync)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pimloom.arch.error import UserError


class Choice(NamedTuple):
    """An operator in a format on a device: its time, its memory, and what of the loss it costs."""

    time: float
    memory: float
    loss: float


class Machine(NamedTuple):
    """A device: of each operator its choices, the narrowest first; the memory that there is."""

    choices: Mapping[str, Sequence[Choice]]
    memory: float


def allocate(machines: Sequence[Machine]) -> list[dict[str, int]]:
    """Of each device the choice of each operator: all at the narrowest, then wider by the most loss that it saves for
    the time, as long as no device is slower than the slowest was. Raises UserError if the narrowest do not fit."""
    found = [dict.fromkeys(machine.choices, 0) for machine in machines]
    for i, machine in enumerate(machines):
        if _sum(machine, found[i], "memory") > machine.memory:
            raise UserError(f"device {i}: its operators do not fit in their narrowest formats; give it more memory")
    limit = step_time(machines, found)
    for machine, chosen in zip(machines, found, strict=True):
        while (better := _best(machine, chosen, limit)) is not None:
            chosen[better] += 1
    return found


def step_time(machines: Sequence[Machine], chosen: Sequence[Mapping[str, int]]) -> float:
    """Of the slowest device."""
    return max(_sum(machine, of, "time") for machine, of in zip(machines, chosen, strict=True))


def loss(machines: Sequence[Machine], chosen: Sequence[Mapping[str, int]]) -> float:
    """Of all devices."""
    return sum(_sum(machine, of, "loss") for machine, of in zip(machines, chosen, strict=True))


def _best(machine: Machine, chosen: Mapping[str, int], limit: float) -> str | None:
    """The operator that is widened next."""
    time, memory = _sum(machine, chosen, "time"), _sum(machine, chosen, "memory")
    best, gained = None, 0.0
    for name, at in chosen.items():
        if at + 1 == len(machine.choices[name]):
            continue
        now, then = machine.choices[name][at : at + 2]
        longer, saved = then.time - now.time, now.loss - then.loss
        if time + longer > limit or memory + then.memory - now.memory > machine.memory or saved <= 0:
            continue
        gain = saved / longer if longer > 0 else float("inf")
        if gain > gained:
            best, gained = name, gain
    return best


def _sum(machine: Machine, chosen: Mapping[str, int], what: str) -> float:
    return sum(getattr(machine.choices[name][at], what) for name, at in chosen.items())
