"""What users ask of fabrics as texts: counts, shares, bandwidths."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from pimloom.arch.document import short
from pimloom.arch.error import UserError

if TYPE_CHECKING:
    from pimloom.arch.fabric_cost import Hbd

MOST = 1000  # values of a range
MOST_USD = 10**9  # the price of a GPU


def read_counts(text: str, option: str) -> list[int]:
    """`8,16,32` as integers from 1 on, in order, each once. Raises UserError."""
    if not all(part.isascii() and part.isdigit() and 0 < len(part) <= 9 and int(part) for part in text.split(",")):
        raise UserError(f"{option} {short(text)!r}: expected integers from 1 to 999999999, like 8,16,32")
    return list(dict.fromkeys(int(part) for part in text.split(",")))


def read_ratios(text: str, option: str) -> list[float]:
    """`0.01,0.05`, or `FROM:TO:STEP` with both ends, as shares from 0 to 1. Raises UserError.

    >>> read_ratios("0:0.3:0.1", "--fault-ratio")
    [0.0, 0.1, 0.2, 0.3]
    """
    wrong = UserError(f"{option} {short(text)!r}: expected shares from 0 to 1, like 0.02,0.05 or 0:0.15:0.01")
    try:
        parts = [Decimal(part) for part in text.replace(":", ",").split(",")]
    except InvalidOperation:
        raise wrong from None
    if not all(part.is_finite() and 0 <= part <= 1 for part in parts):
        raise wrong
    if ":" not in text:
        return list(dict.fromkeys(float(part) for part in parts))
    if len(parts) != 3 or "," in text:
        raise wrong
    if parts[2] == 0 or parts[0] > parts[1]:
        raise UserError(f"{option} {short(text)!r}: expected FROM:TO:STEP with FROM up to TO and a STEP above 0")
    low, high, step = parts
    count = int((high - low) / step) + 1
    if count > MOST:
        raise UserError(f"{option} {short(text)!r}: {count} values; expected at most {MOST}")
    return [float(low + step * place) for place in range(count)]


SLOWEST, FASTEST = 0.001, 1e9  # GB/s


def domains_asked(arch: str, other_gb_s: Sequence[str]) -> list["Hbd"]:
    """Fabrics with the bandwidths that were asked for."""
    from dataclasses import replace

    from pimloom.systems.fabric.mfu import BASELINE, domains

    found = domains(arch)
    for text in other_gb_s:
        name, _, number = text.rpartition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = 0
        if not SLOWEST <= rate <= FASTEST:
            raise UserError(
                f"--hbd-gb-s {short(text)}: expected GB/s from {SLOWEST} to {FASTEST:,.0f}, "
                "like 400 or infinitehbd-k2=400"
            )
        if name and name not in [hbd.arch for hbd in found]:
            raise UserError(f"--hbd-gb-s {short(text)}: {short(name)} is none of --arch {arch}")
        chosen = [name] if name else [hbd.arch for hbd in found if hbd.arch != BASELINE]
        found = [replace(hbd, gb_s=rate) if hbd.arch in chosen else hbd for hbd in found]
    return found
