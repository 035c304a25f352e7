"""Order of groups in data-parallel rings, and ranks within a group, so that few pairs of neighbours cross ToRs."""

from collections.abc import Sequence

import numpy as np


def order_and_rank(
    chains: np.ndarray, template: np.ndarray, number: np.ndarray, tors: int
) -> tuple[np.ndarray, np.ndarray]:
    """(order, ranks) of groups: int64 (groups,) as they should be joined, and int64 (groups, m) positions by rank.

    chains: int64 (groups, m) positions; template: int64 (groups,), the template that each stands in for; number: int64
    (L,), the template of each ToR. Groups of a template stand together: those that lean to lower ToRs, exact ones,
    those that lean to higher ones, each beside the one that it shares most ToRs with and keeping those ToRs' ranks.
    """
    places = np.argsort(template, kind="stable")
    columns = chains % tors
    exact = (number[columns] == template[:, None]).all(axis=1)
    order: list[int] = []
    ranks = chains.copy()
    for part in np.split(places, np.flatnonzero(np.diff(template[places])) + 1):
        rest = part[~exact[part]]
        base = np.flatnonzero(number == template[part[0]]) if len(rest) else columns[:0]
        lean = columns[rest].sum(axis=1) - base.sum()
        low = _wing(base.tolist(), rest[lean < 0].tolist(), columns, -1)
        high = _wing(base.tolist(), rest[lean >= 0].tolist(), columns, 1)
        for group, labels in (*low, *high):
            ranks[group] = chains[group][np.searchsorted(columns[group], labels)]
        order += [group for group, _ in reversed(low)] + part[exact[part]].tolist() + [group for group, _ in high]
    return np.array(order, np.int64), ranks


def _wing(base: Sequence[int], groups: list[int], columns: np.ndarray, sign: int) -> list[tuple[int, list[int]]]:
    """The groups outwards from the template's ToRs `base`, each with its ToRs by rank."""
    labels, found = list(base), []
    rest = {group: columns[group].tolist() for group in groups}
    while rest:
        known = set(labels)
        nearest = min(rest, key=lambda g: (len(known.difference(rest[g])), [sign * tor for tor in rest[g]]))
        mine = rest.pop(nearest)
        new = iter(sorted(set(mine) - known))
        kept = set(mine)
        labels = [tor if tor in kept else next(new) for tor in labels]
        found.append((nearest, labels))
    return found
