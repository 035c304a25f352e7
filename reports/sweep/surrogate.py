"""Sensitivities of a sample of an incomplete grid, from a polynomial that is fitted to it.

The objective is fitted by products of one or two polynomials, orthonormal over the values of their axes, so the
squares of the coefficients are shares of the variance (a polynomial chaos expansion). Axes of text, and those with few
values, get as many terms as they have values, so nothing is assumed about their shape. Intervals come from
resampling blocks of rows, to first order. What the fit leaves over is said, never spread over the axes.

If points have failed, terms of the fit may be collinear in the rows that are left. A pair of axes with such terms is
left out and named. If terms of single axes are collinear, there is no estimate, and the axes are named.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

MOST_TERMS = 260
ROWS_PER_TERM = 4
BLOCKS, RESAMPLES = 40, 200
DEGREES = ((7, 3), (5, 2), (4, 1), (3, 1), (5, 0), (3, 0), (1, 0))  # of one axis alone, and of each in a pair
MOST_TEXT_TERMS = 15
LEAST_APART = 0.02  # smallest eigenvalue of the terms' moments, each of which is 1 on a grid
TELLS = 0.1  # weight in that eigenvector from which an axis is named
TINY = 1e-30


@dataclass(frozen=True)
class Sensitivity:
    """Indices with 95 % intervals: (axes,) and (axes, 2); the share of the variance that the fit explains.

    together: whether the fit has terms of two axes; without them `total` is `main`. left_out: pairs of axes whose
    terms are collinear with others in these rows.
    """

    main: np.ndarray
    total: np.ndarray
    main_range: np.ndarray
    total_range: np.ndarray
    explained: float
    together: bool
    left_out: tuple[tuple[int, ...], ...] = ()


def fitted_sensitivity(
    axes: Sequence[tuple[np.ndarray, bool]], codes: np.ndarray, values: np.ndarray
) -> Sensitivity | tuple[int, ...]:
    """Estimated indices; if there are none, the axes that cannot be separated, no axes if points are too few.

    axes: for each axis its levels and whether they are numbers. codes: (n, axes), places among the levels.
    values: (n,), not all the same. The same input gives the same intervals.
    """
    confounded, fit = tuple[int, ...](), None
    for bases, owners in _plans(axes, codes):
        kept, confounded = _apart(_moments(bases, owners, codes, values)[0] / len(values), owners)
        if not confounded:
            fit = bases, owners, kept
            break
    if fit is None:
        return confounded
    bases, all_owners, kept = fit
    owners = [owner for owner, keep in zip(all_owners, kept[1:], strict=True) if keep]
    left_out = tuple(dict.fromkeys(owner for owner, keep in zip(all_owners, kept[1:], strict=True) if not keep))
    order = np.random.default_rng(0).permutation(len(values))
    scaled = (values - values.mean()) / values.std()
    blocks = np.array_split(order, min(BLOCKS, len(values)))
    sums = [
        (gram[np.ix_(kept, kept)], projection[kept], square)
        for gram, projection, square in (_moments(bases, all_owners, codes[rows], scaled[rows]) for rows in blocks)
    ]
    gram, projection = (sum(part) for part in list(zip(*sums, strict=True))[:2])
    inverse = np.linalg.inv(gram)
    best = inverse @ projection
    scores = np.stack([mine - part @ best for part, mine, _ in sums])  # what each block pulls the fit to
    left = np.array([square - 2 * mine @ best + best @ part @ best for part, mine, square in sums])

    weights = np.random.default_rng(1).multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)), size=RESAMPLES)
    weights = np.vstack([np.ones(len(blocks)), weights])  # the first is the sample itself
    coefficients = best + (weights - 1) @ scores @ inverse
    noise = np.maximum(weights @ left, 0) / max(len(values) - len(gram), 1)
    parts = coefficients[:, 1:] ** 2 - noise[:, None] * np.diag(inverse)[1:]  # less what noise adds
    # The variance of independent axes: chance correlations of the sample count for nothing.
    whole = np.maximum(parts.sum(axis=1) + noise, TINY)[:, None]

    belongs = np.array([[axis in owner for owner in owners] for axis in range(codes.shape[1])])
    alone = belongs & np.array([len(owner) == 1 for owner in owners])
    main, main_range = _spread(parts @ alone.T / whole)
    total, total_range = _spread(parts @ belongs.T / whole)
    explained, _ = _spread(parts.sum(axis=1, keepdims=True) / whole)
    together = max(map(len, owners)) > 1
    return Sensitivity(main, total, main_range, total_range, float(explained[0]), together, left_out)


def _spread(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first row, and the 95 % interval of the others around it: (columns,), (columns, 2)."""
    shares = np.clip(shares, 0, 1)
    low, high = np.percentile(shares[1:], [2.5, 97.5], axis=0)
    return shares[0], np.column_stack([np.minimum(low, shares[0]), np.maximum(high, shares[0])])


def _apart(moments: np.ndarray, owners: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, tuple[int, ...]]:
    """A mask of the terms, the constant first, that remain without collinear pairs of axes; and the axes that are still
    collinear."""
    of = [(), *owners]
    kept = np.ones(len(of), bool)
    while True:
        size, vectors = np.linalg.eigh(moments[np.ix_(kept, kept)])
        if size[0] >= LEAST_APART:
            return kept, ()
        weight = dict.fromkeys(of, 0.0)
        for owner, part in zip([o for o, keep in zip(of, kept, strict=True) if keep], vectors[:, 0], strict=True):
            weight[owner] += part**2
        pairs = [owner for owner, share in weight.items() if len(owner) == 2 and share > TELLS]
        if not pairs:
            return kept, tuple(sorted(owner[0] for owner, share in weight.items() if len(owner) == 1 and share > TELLS))
        worst = max(pairs, key=weight.__getitem__)
        kept &= np.array([owner != worst for owner in of])


def _plans(
    axes: Sequence[tuple[np.ndarray, bool]], codes: np.ndarray
) -> Iterator[tuple[list[np.ndarray], list[tuple[int, ...]]]]:
    """Bases of all axes, and for each term of the fit the axes that it belongs to: those that the rows bear, the
    richest first."""
    for own, paired in DEGREES:
        bases = [_orthonormal(levels, numeric, own) for levels, numeric in axes]
        owners: list[tuple[int, ...]] = [(nth,) for nth, basis in enumerate(bases) for _ in range(basis.shape[1])]
        for one, two in combinations(range(len(axes)), 2):
            owners += [(one, two)] * (min(paired, bases[one].shape[1]) * min(paired, bases[two].shape[1]))
        if len(owners) < MOST_TERMS and len(owners) * ROWS_PER_TERM <= len(codes):
            yield bases, owners


def _orthonormal(levels: np.ndarray, numeric: bool, degree: int) -> np.ndarray:
    """(levels, terms): polynomials over the levels, orthonormal when all levels weigh the same, as on a grid."""
    count = len(levels)
    ranks = np.linspace(-1, 1, count)  # not the values: a log axis is as good as a linear one
    terms = min(degree, count - 1) if numeric else min(count - 1, max(degree, MOST_TEXT_TERMS))
    unit, _ = np.linalg.qr(np.polynomial.legendre.legvander(ranks, terms))
    return unit[:, 1:] * np.sqrt(count)


def _moments(
    bases: Sequence[np.ndarray], owners: Sequence[tuple[int, ...]], codes: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X'X, X'y and y'y of some rows, with the constant as the first column of X."""
    singles = [basis[codes[:, nth]] for nth, basis in enumerate(bases)]
    columns = [np.ones((len(values), 1)), *singles]
    pairs: dict[tuple[int, ...], int] = {}
    for owner in owners:
        pairs[owner] = pairs.get(owner, 0) + 1
    for owner, terms in pairs.items():
        if len(owner) == 2:
            one, two = (singles[nth] for nth in owner)
            most = _paired(one.shape[1], two.shape[1], terms)
            columns.append((one[:, : most[0], None] * two[:, None, : most[1]]).reshape(len(values), -1))
    matrix = np.concatenate(columns, axis=1)
    return matrix.T @ matrix, matrix.T @ values, np.asarray(values @ values)


def _paired(one: int, two: int, terms: int) -> tuple[int, int]:
    """How many polynomials of each axis make `terms` products, none of more than the other where both have more."""
    degree = next(n for n in range(1, terms + 1) if min(n, one) * min(n, two) == terms)
    return min(degree, one), min(degree, two)
