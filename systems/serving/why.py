"""Why the first of several systems is the first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pimloom.arch.name_units import figure
from pimloom.arch.units import S_PER_MS
from pimloom.systems.devices.sizes import listed, size_text

if TYPE_CHECKING:
    from pimloom.systems.serving.comparing import Compared, Phase

LATENCY_DIGITS = 5  # of a printed latency [ms]
MOSTLY = 0.5  # of a phase's time: what takes less does not bound it


def why(ran: Sequence["Compared"], asked: int = 2) -> str:
    """Why the first of the systems that ran, the fastest first, is the first: where it gains on the next one.
    asked: how many were to run it."""
    first = ran[0]
    if len(ran) == 1:
        return f"Only {first.system} can run this workload." if asked > 1 else f"{first.system} is the only system."
    second = ran[1]
    assert first.latency_s is not None and second.latency_s is not None
    gains = {name: _time(second, name) - _time(first, name) for name in ("prefill", "decode")}
    gained = max(gains, key=lambda name: gains[name])
    if len(tied := fastest(ran)) > 1:
        return f"{listed(tied)} take equally long."
    said = {"prefill": "the prompts", "decode": "decode"}
    lost = [name for name, gain in gains.items() if gain < 0]
    but = f", though it loses {_ms(-gains[lost[0]])} in {said[lost[0]]}" if lost else ""
    times = figure(second.latency_s / first.latency_s, 3)
    return (
        f"{_sized(first)} ends first, {times} times as fast as {_sized(second)}: it "
        f"gains {_ms(gains[gained])} in {said[gained]}{but}. In {said[gained]} {_bounded(first, gained)}; "
        f"{_bounded(second, gained)}."
    )


def fastest(ran: Sequence["Compared"]) -> list[str]:
    """The first of systems, the fastest first, and those whose latency is the same as printed."""
    printed = [figure((one.latency_s or 0.0) / S_PER_MS, LATENCY_DIGITS) for one in ran]
    return [one.system for one, said in zip(ran, printed, strict=True) if said == printed[0]]


def _sized(one: "Compared") -> str:
    """A system with its size, without which its rate says little."""
    if one.devices is None or one.memory_gb_s is None:
        return one.system
    return f"{one.system} ({size_text(one.devices, one.memory_gb_s)})"


def _time(one: "Compared", phase: str) -> float:
    found: Phase | None = getattr(one, phase)
    return found.time_s if found else 0.0


def _ms(seconds: float) -> str:
    return f"{figure(seconds * 1000, 3)} ms"


def _bounded(one: "Compared", phase: str) -> str:
    found: Phase | None = getattr(one, phase)
    if found is None or found.bound is None or found.bound_share is None:
        return f"nothing is known of what bounds {one.system}"
    rate = "" if found.bound == "launches" else " at full rate"
    share = f"would take {100 * found.bound_share:.0f} % of the time{rate} by itself"
    if found.bound_share < MOSTLY:
        return f"{one.system} mostly waits: {found.bound}, the most of its work, {share}"
    return f"{one.system} is bound by {found.bound}, which {share}"
