"""Which ToRs a group should span: templates, m ToRs each, with spare ToRs between them or in the midst of one.

In the rows whose nodes of a template are all healthy, groups span the same ToRs and no traffic crosses. A row with a
fault there takes a node of a spare ToR instead, and one pair in m crosses.
"""

import numpy as np

from pimloom.mappers.fabric.cover import cover, follow

HALF_GOOD = (0.0, 0.3)  # what a row with one fault is worth beside a healthy one [design], tried in turn
PRICES = np.array(
    [-1, -0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1, 0, 0.2, 0.5, 1.0]
)  # of a template, in rows


def templates(grid: np.ndarray, m: int, least: int, each: int) -> np.ndarray:
    """Sets of templates worth trying: int64 (sets, L), the number of the template of each ToR, -1 where it is spare.

    grid: bool (p, L), healthy nodes by row and ToR. Each set has at least `least` templates; none if L has no room.
    Of each of three kinds of sets at most `each` are tried, from few templates and many spare ToRs to many.
    """
    most = grid.shape[1] // m
    if least > most:
        return np.zeros((0, grid.shape[1]), np.int64)
    counts = np.unique(np.linspace(least, most, each).round().astype(int))
    found = [_even(grid.shape[1], m, int(count)) for count in counts]
    return np.array([*found, *_fitted(grid, m, least, each)])


def _even(width: int, m: int, count: int) -> np.ndarray:
    """`count` templates with the spare ToRs evenly between them."""
    nth = np.arange(count)
    start = m * nth + ((2 * nth + 1) * (width - m * count)) // (2 * count)
    number = np.full(width, -1)
    number[(start[:, None] + np.arange(m)).ravel()] = np.repeat(nth, m)
    return number


def _fitted(grid: np.ndarray, m: int, least: int, each: int) -> list[np.ndarray]:
    """Templates where most rows are healthy: of m ToRs in a row, or of m + 1 with one inner ToR left out."""
    rows, width = grid.shape
    whole, holed, hole = _worth(~grid, m)
    chosen = cover([whole, holed], [m, m + 1], PRICES * rows)
    starts = follow(chosen)
    sizes = (starts < width).sum(axis=0)
    found = []
    for kind in range(len(HALF_GOOD)):
        good = [q for q in np.unique(sizes[kind], return_index=True)[1].tolist() if sizes[kind, q] >= least]
        for q in {good[i] for i in np.linspace(0, len(good) - 1, each).round().astype(int)} if good else ():
            number = np.full(width, -1)
            for nth, start in enumerate(starts[: sizes[kind, q], kind, q].tolist()):
                length = int(chosen[start, kind, q])
                number[start : start + length] = nth
                if length > m:
                    number[start + hole[start, kind]] = -1
            found.append(number)
    return found


def _worth(bad: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Worth of a template that starts at each ToR: float (L, kinds) whole, or with its best hole, and that hole."""
    rows, width = bad.shape
    share = np.array(HALF_GOOD)
    shape = width, len(share)
    whole, holed, hole = np.full(shape, -np.inf), np.full(shape, -np.inf), np.zeros(shape, np.int64)
    total = np.cumsum(np.pad(bad, ((0, 0), (1, 0))), axis=1, dtype=np.int32)

    def worth(faults: np.ndarray) -> np.ndarray:
        none, one = ((faults == count).sum(axis=0, dtype=np.int16) for count in (0, 1))
        return np.asarray(none[:, None] + one[:, None] * share)

    whole[: width - m + 1] = worth(total[:, m:] - total[:, :-m])
    count = max(width - m, 0)
    for inner in range(1, m):
        value = worth(total[:, m + 1 :] - total[:, : -m - 1] - bad[:, inner : inner + count])
        better = value > holed[:count]
        holed[:count][better] = value[better]
        hole[:count][better] = inner
    return whole, holed, hole
