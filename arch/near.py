"""Names that may have been meant."""

import difflib
from collections.abc import Iterable

NEAREST = "; nearest: "
MOST_NAMES = 20  # that a message lists


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy: '; nearest: a, b', the known names most like `name` or its last part, or '' if none is."""
    names = list(known)
    by_last = {n.rpartition(".")[2]: n for n in reversed(names)}
    close = difflib.get_close_matches(name, names)
    close += [by_last[n] for n in difflib.get_close_matches(name.rpartition(".")[2], by_last)]
    return f"{NEAREST}{', '.join(list(dict.fromkeys(close))[:3])}" if close else ""


def next_to(number: int, fit: Iterable[int]) -> str:
    """The numbers that fit next to one that does not, below and above it: '2 or 4', '8', or '' if none fits.

    >>> next_to(3, (1, 2, 4, 8)), next_to(9, (1, 2, 4, 8)), next_to(3, ())
    ('2 or 4', '8', '')
    """
    known = sorted(fit)
    near = [n for n in known if n < number][-1:] + [n for n in known if n > number][:1]
    return " or ".join(map(str, near))


def remedy(place: str, places: Iterable[str]) -> str:
    """Near ones of these dotted places, else the keys among which one was looked for."""
    known = [p for p in places if p]
    near = nearest(place, known)
    if near and not all(place.startswith(f"{name}.") for name in near.removeprefix(NEAREST).split(", ")):
        return near
    above = place.rpartition(".")[0]
    while above and above not in known:
        above = above.rpartition(".")[0]
    start = f"{above}." if above else ""
    names = [p for p in known if p.startswith(start) and not set(".[") & set(p[len(start) :])]
    told = ", ".join([*names[:MOST_NAMES], *["..."] * (len(names) > MOST_NAMES)])
    return f"; expected one of {told}" if names else ""
