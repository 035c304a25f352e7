"""Values as people type them: 4096, or 1e6 as `pimloom trace --requests` takes them; numbers in a range."""

from collections.abc import Callable
from decimal import Decimal

import typer

MOST = 2**63 - 1
LAST_SEED = 2**64 - 1
NAN = float("nan")


def count(text: str | int) -> int:
    """A whole number. Raises BadParameter, to which the command adds the option.

    >>> count("4096"), count("1e6"), count("-3"), count("2.5e1")
    (4096, 1000000, -3, 25)
    """
    number = _whole(text, MOST)
    if number is None:
        raise typer.BadParameter(f"expected a whole number of at most 2^63 - 1, such as 4096 or 1e6, got {text}")
    return number


def seed(text: str | int) -> int:
    """A seed. Raises BadParameter as above."""
    number = _whole(text, LAST_SEED)
    if number is None or number < 0:
        raise typer.BadParameter(f"expected a whole number from 0 to 2^64 - 1, got {text}")
    return number


def number(least: float, most: float) -> Callable[[str | float], float]:
    """What reads a number in a range, which NaN is in none of. Raises BadParameter as above.

    >>> number(0, 1)("5e-1")
    0.5
    """

    def read(text: str | float) -> float:
        try:
            found = float(text)
        except ValueError:
            found = NAN
        if not least <= found <= most:
            raise typer.BadParameter(f"expected a number from {least:,} to {most:,}, got {text}")
        return found

    return read


def _whole(text: str | int, most: int) -> int | None:
    """None for what is no whole number, or is beyond `most`, above or below 0."""
    try:
        number = int(text)
    except ValueError:  # also of thousands of digits
        try:
            exact = Decimal(text)
            if abs(exact) > most or exact != exact.to_integral_value():
                return None
        except ArithmeticError:
            return None
        number = int(exact)
    return number if abs(number) <= most else None
