"""Options that the subcommands of `pimloom fabric` share, and how their texts are read."""

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import typer

from pimloom.arch.document import short
from pimloom.arch.error import UserError

MOST = 1000  # values of a range

Arch = Annotated[str, typer.Option("--arch", metavar="NAMES", help="Architectures, a,b,c, or all.")]
Gpus = Annotated[int, typer.Option(metavar="N", help="GPUs of the cluster.")]
GpusPerNode = Annotated[int, typer.Option(metavar="R", help="GPUs of a node; a fault takes the whole node.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the rows as CSV.")]


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
