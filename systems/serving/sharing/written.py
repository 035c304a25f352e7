"""Shares of a machine, as a user writes them."""

import re
from fractions import Fraction
from typing import NamedTuple

from pimloom.arch.document import nearest
from pimloom.arch.error import of_option
from pimloom.systems.serving.sharing.controller import WHOLE, Control

KEYS = ("prefill", "decode", "window", "step", "max", "percentile")
SUCH_AS = "such as prefill=50,decode=50 or prefill=50,decode=50,window=50"
MOST = 10**6
DECIMAL, WHOLE_NUMBER = re.compile(r"\d{1,3}(\.\d{1,6})?", re.ASCII), re.compile(r"\d{1,7}", re.ASCII)


class Shares(NamedTuple):
    """Of prompts and of decode at the beginning [%]; control: None: they stay."""

    prefill: Fraction
    decode: Fraction
    control: Control | None


def parse_shares(text: str) -> Shares:
    """Raises UserError.

    >>> parse_shares("prefill=60, decode=60, window=20").control
    Control(window=20, step=Fraction(5, 1), most=4, percentile=90.0, apart=False)
    """
    found = dict[str, Fraction]()
    for part in text.split(","):
        key, _, value = (word.strip() for word in part.partition("="))
        if key not in KEYS:
            raise of_option("shares", text, f"expected {', '.join(KEYS)}, {SUCH_AS}, got {key!r}{nearest(key, KEYS)}")
        if key in found:
            raise of_option("shares", text, f"{key} is given twice")
        most = WHOLE if key in ("prefill", "decode", "step", "percentile") else MOST
        kind, wanted = (
            (DECIMAL, "a number") if key in ("prefill", "decode", "step") else (WHOLE_NUMBER, "a whole number")
        )
        if not kind.fullmatch(value) or not 1 <= Fraction(value) <= most:
            raise of_option("shares", text, f"{key}: expected {wanted} of 1 to {most:,}, got {value!r}")
        found[key] = Fraction(value)
    if missing := [key for key in ("prefill", "decode") if key not in found]:
        raise of_option("shares", text, f"expected {missing[0]}, too, {SUCH_AS}")
    if "window" not in found:
        if alone := [key for key in ("step", "max", "percentile") if key in found]:
            raise of_option("shares", text, f"{alone[0]} belongs to window=N, iterations after which shares may change")
        return Shares(found["prefill"], found["decode"], None)
    step, times, percentile = found.get("step", Fraction(5)), found.get("max", Fraction(4)), found.get("percentile", 90)
    control = Control(int(found["window"]), step, int(times), float(percentile))
    return Shares(found["prefill"], found["decode"], control)
