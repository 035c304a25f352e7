"""Whole numbers as people type them: 4096, or 1e6 as `pimloom trace --requests` takes them."""

from decimal import Decimal, InvalidOperation

import typer

MOST = 2**63 - 1


def count(text: str | int) -> int:
    """A whole number. Raises BadParameter, to which the command adds the option.

    >>> count("4096"), count("1e6"), count("-3"), count("2.5e1")
    (4096, 1000000, -3, 25)
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = Decimal(text)
        if abs(number) <= MOST and number == number.to_integral_value():
            return int(number)
    except InvalidOperation:
        pass
    raise typer.BadParameter(f"expected a whole number of at most 2^63 - 1, such as 4096 or 1e6, got {text}")
