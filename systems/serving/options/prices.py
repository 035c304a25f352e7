"""What devices cost for an hour, as a user writes it."""

from math import isfinite

from pimloom.arch.error import UserError

MOST_USD = 1e9  # an hour


def parse_price(text: str | None, pools: int, each: str = "of both pools") -> list[float | None]:
    """Dollars an hour for a device, of each pool, or of whatever `each` says. Raises UserError.

    >>> parse_price("1.29:2", 2), parse_price("1.5", 2), parse_price(None, 1)
    ([1.29, 2.0], [1.5, 1.5], [None])
    """
    if text is None:
        return [None] * pools
    words = text.split(":")
    if len(words) not in (1, pools):
        such_as = "one for all, such as 1.29" + (f", or {each}, such as 1.29:2.69" if pools > 1 else "")
        raise UserError(f"--price {text}: expected {such_as}")
    found = [_dollars(text, word) for word in words]
    return [*found] if len(found) == pools else [found[0]] * pools


def _dollars(text: str, word: str) -> float:
    try:
        found = float(word)
    except ValueError:
        found = -1.0
    if not (isfinite(found) and 0 < found <= MOST_USD):
        raise UserError(f"--price {text}: expected dollars an hour, above 0, such as 1.29, got {word.strip()!r}")
    return found
