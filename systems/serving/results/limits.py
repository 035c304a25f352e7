"""Limits of latency that a service is held to."""

from fractions import Fraction
from typing import NamedTuple

from pimloom.arch.document import nearest
from pimloom.arch.error import of_option

NAMES = {"ttft": "time to first token", "tpot": "time per output token", "latency": "latency"}
UNITS = {"us": 10**6, "ms": 1000, "s": 1}  # of a second
SUCH_AS = "such as ttft=1s,tpot=50ms"


class Limit(float):
    """Seconds, and the text that they were typed as."""

    text: str


class Slo(NamedTuple):
    """Most seconds of each; None: no limit."""

    ttft: float | None = None
    tpot: float | None = None
    latency: float | None = None


def parse_slo(text: str) -> Slo:
    """As a user writes it. Raises UserError.

    >>> parse_slo("ttft=1s,tpot=50ms")
    Slo(ttft=1.0, tpot=0.05, latency=None)
    """
    found = dict[str, float]()
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in NAMES:
            raise of_option("slo", text, f"expected {', '.join(NAMES)}, {SUCH_AS}, got {name!r}{nearest(name, NAMES)}")
        if name in found:
            raise of_option("slo", text, f"{name} is given twice")
        found[name] = _seconds(text, value)
    return Slo(**found)


def _seconds(text: str, value: str) -> Limit:
    digits = value.rstrip("mus")
    unit = value[len(digits) :]
    try:
        seconds = Limit(Fraction(digits) / UNITS[unit])  # 50000us is 50ms to the last bit
    except (ValueError, KeyError, OverflowError):
        raise of_option("slo", text, f"expected a time in s, ms or us, {SUCH_AS}, got {value!r}") from None
    if not 0 < seconds < float("inf"):
        raise of_option("slo", text, f"expected a time above 0, {SUCH_AS}")
    seconds.text = value
    return seconds
