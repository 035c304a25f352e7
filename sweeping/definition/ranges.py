"""The values of a range: counted before they are made, at exact decimal places, whole numbers as integers."""

import math
from fractions import Fraction

Number = int | float

MOST_VALUES = 1_000_000  # of one axis
_DIGITS_LINEAR, _DIGITS_LOG = 12, 6  # significant digits of the values between the ends
_EXACT = 2**53  # below it every whole float is one integer


def stepped(low: Number, high: Number, step: Number) -> tuple[Number, ...]:
    """low, low + step, ... up to and including high. Exact: 0.1, 0.2, 0.3 are the decimals one would write.

    Raises ValueError: step <= 0, low > high, more than MOST_VALUES values, values that coincide.

    >>> stepped(0, 0.3, 0.1), stepped(1, 6, 2)
    ((0.0, 0.1, 0.2, 0.3), (1, 3, 5))
    """
    count = count_steps(low, high, step)
    _check_count(count)
    first, width = Fraction(str(low)), Fraction(str(step))
    unit = math.lcm(first.denominator, width.denominator)
    start, stride = int(first * unit), int(width * unit)
    whole = unit == 1 and max(abs(low), abs(high)) < 2**63
    numerators = range(start, start + count * stride, stride)
    values: list[Number] = list(numerators) if whole else [numerator / unit for numerator in numerators]
    if not _ascends(values):
        raise ValueError(f"a step of {step} is too fine beside {high}: some values are equal")
    return uniform(values)


def count_steps(low: Number, high: Number, step: Number) -> int:
    """How many values `stepped` would give, exactly. Raises ValueError: step <= 0, low > high."""
    if not step > 0:
        raise ValueError(f"expected a step > 0, got {step}")
    if low > high:
        raise ValueError(f"expected from <= to, got from {low} to {high}")
    first, last, width = (Fraction(str(number)) for number in (low, high, step))
    return (last - first) // width + 1


def spaced(low: Number, high: Number, points: int) -> tuple[Number, ...]:
    """`points` values evenly from low to high, both included; between them rounded to 12 significant digits.

    Raises ValueError: fewer than 2 points, more than MOST_VALUES, low >= high, values that coincide.

    >>> spaced(1, 2, 5), spaced(0, 9, 4)
    ((1.0, 1.25, 1.5, 1.75, 2.0), (0, 3, 6, 9))
    """
    _check_points(low, high, points)
    first, last = Fraction(str(low)), Fraction(str(high))
    inner = [float(first + i * (last - first) / (points - 1)) for i in range(1, points - 1)]
    return _ascending([low, *(float(f"{value:.{_DIGITS_LINEAR}g}") for value in inner), high], _DIGITS_LINEAR)


def log_spaced(low: Number, high: Number, points: int) -> tuple[Number, ...]:
    """`points` values from low to high, both included, each the same multiple of the last, to 6 significant digits.

    Raises ValueError as `spaced`, and where low <= 0.

    >>> log_spaced(1, 64, 7), log_spaced(100, 2000, 3)
    ((1, 2, 4, 8, 16, 32, 64), (100.0, 447.214, 2000.0))
    """
    check_positive(low)
    _check_points(low, high, points)
    first, last = math.log(low), math.log(high)
    inner = [math.exp(first + i * (last - first) / (points - 1)) for i in range(1, points - 1)]
    return _ascending([low, *(float(f"{value:.{_DIGITS_LOG}g}") for value in inner), high], _DIGITS_LOG)


def uniform(values: list[Number]) -> tuple[Number, ...]:
    """The values as one type, which a column of a table needs: all int if all are, else all float."""
    if all(isinstance(value, int) for value in values):
        return tuple(values)
    return tuple(float(value) for value in values)


def counted(count: int) -> str:
    """A count in words of at most 20 characters, however long the number.

    >>> counted(12345), counted(10**5000)
    ('12,345', 'about 10^5000')
    """
    return f"{count:,}" if count < 10**15 else f"about 10^{round(math.log10(count))}"


def check_positive(low: Number) -> None:
    """Raise ValueError where a logarithmic range would start at 0 or below."""
    if not low > 0:
        raise ValueError(f"expected a range of log above 0, got {low}")


def _check_points(low: Number, high: Number, points: int) -> None:
    if points < 2:
        raise ValueError(f"expected at least 2 points, got {points}")
    if low >= high:
        raise ValueError(f"expected the lower end first, got {low} and {high}")
    _check_count(points)


def _check_count(count: int) -> None:
    if count > MOST_VALUES:
        raise ValueError(f"{counted(count)} values, expected at most {MOST_VALUES:,}")


def _ascends(values: list[Number]) -> bool:
    return all(before < after for before, after in zip(values, values[1:], strict=False))


def _ascending(values: list[Number], digits: int) -> tuple[Number, ...]:
    if not _ascends(values):
        raise ValueError(f"{counted(len(values))} points are too many: at {digits} significant digits some are equal")
    whole = all(isinstance(v, int) or v.is_integer() and abs(v) < _EXACT for v in values)
    return uniform([int(value) for value in values] if whole else values)
