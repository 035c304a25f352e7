"""Prices of iterations, fitted to simulated ones by the work that a device outlines.

The time of a unit is linear in its work. A stage takes the time of its slower unit and a share of that of the other.
Energy is linear in time and work. An iteration far from all simulated ones is simulated, too. `interpolated` chooses
more iterations, and measures the error on iterations that a fit does not include.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import Any

import numpy as np

from pimloom.systems.devices.outline import Outline, Part
from pimloom.systems.serving.pricing.costs import Cost, Exact, Piece
from pimloom.systems.serving.pricing.points import sums
from pimloom.systems.serving.pricing.sampling import where
from pimloom.systems.serving.schedulers.live import NOWHERE

FAR = 30.0  # [design] squared distance of coordinates (log2) beyond which an iteration is simulated
SHARE = 0.1  # [design] first value of a fit: share of the faster unit's time in which the other one waits
STEADY = 0.02  # [design] relative error beyond which a point has less weight in a fit
TINY = 1e-9  # smallest first value of a parameter: its bound is 0
MOST = 256  # stored iterations; more than a run simulates one by one
Key = tuple[Piece, ...]


class Table:
    """The work of iterations as matrices (iterations × kinds of work): of arrays and banks by stage, and outside."""

    def __init__(self, outlines: Sequence[Outline]) -> None:
        stages = max(len(one.arrays) for one in outlines)
        self.arrays = np.array([_filled(one.arrays, stages) for one in outlines])
        self.banks = np.array([_filled(one.banks, stages) for one in outlines])
        self.outside = np.array([one.outside for one in outlines])
        self.together = np.array([[one.together] for one in outlines])
        self.sums = np.hstack([self.arrays.sum(1), self.banks.sum(1), self.outside])
        self.more = np.array([one.more for one in outlines])

    def ps(self, x: np.ndarray) -> np.ndarray:
        """Times of the iterations [ps] with parameters x; the last parameter is the share of the faster unit."""
        a, b = self.arrays.shape[2], self.banks.shape[2]
        first, second = self.arrays @ x[:a], self.banks @ x[a : a + b]
        hidden = np.minimum(first, second) * np.where(self.together, 1 - x[-1], 0.0)
        return np.asarray((first + second - hidden).sum(1) + self.outside @ x[a + b : -1])


def _filled(stages: Sequence[Sequence[float]], number: int) -> list[Sequence[float]]:
    return [*stages, *[[0.0] * len(stages[0])] * (number - len(stages))]


class Fit:
    """Parameters with the smallest errors of simulated costs, relative to their time."""

    def __init__(self, outlines: Sequence[Outline], costs: Sequence[Cost]) -> None:
        from scipy.optimize import least_squares, nnls  # slow to import

        wide, table = max(map(len, costs)), Table(outlines)
        rest = np.array([[*cost, *[0.0] * (wide - len(cost))] for cost in costs])
        ps, rest = rest[:, 0], rest[:, 1:]
        unit = _unit(table.sums / ps[:, None])
        begin = np.append(nnls(table.sums / ps[:, None] / unit, np.ones(len(ps)))[0], SHARE)
        units, high = np.append(unit, 1.0), np.append(np.full(len(begin) - 1, np.inf), 1.0)
        x = least_squares(
            lambda x: table.ps(x / units) / ps - 1, np.clip(begin, TINY, high), bounds=(0.0, high), loss="soft_l1",
            f_scale=STEADY, x_scale=np.maximum(begin, SHARE),
        ).x / units  # fmt: skip
        a, b = table.arrays.shape[2], table.banks.shape[2]
        self.arrays, self.banks, self.outside = x[:a].tolist(), x[a : a + b].tolist(), x[a + b : -1].tolist()
        self.share = float(x[-1])
        work = np.hstack([np.ones((len(ps), 1)), table.sums / ps[:, None], table.more / ps[:, None]])
        unit = _unit(work)
        self.linear = np.array([nnls(work / unit, column)[0] / unit for column in (rest / ps[:, None]).T])

    def of(self, outline: Outline) -> Cost:
        """The cost of an iteration: time [ps], then energies by cause."""
        ps = sum(map(mul, outline.outside, self.outside))
        for arrays, banks in zip(outline.arrays, outline.banks, strict=True):
            first, second = sum(map(mul, arrays, self.arrays)), sum(map(mul, banks, self.banks))
            ps += first + second - min(first, second) * (1 - self.share if outline.together else 0.0)
        work = [ps, *map(sum, zip(*outline.arrays, strict=True)), *map(sum, zip(*outline.banks, strict=True))]
        return [ps, *(self.linear @ [*work, *outline.outside, *outline.more]).tolist()]


def _unit(table: np.ndarray) -> np.ndarray:
    """The largest of each column, 1 where all are 0."""
    largest = table.max(axis=0)
    return np.where(largest > 0.0, largest, 1.0)


class Fitted:
    """Prices of a device that outlines its steps. points: the simulated iterations of the fit; asked: the first `MOST`
    different iterations of a run."""

    def __init__(self, exact: Exact) -> None:
        device: Any = exact.device
        self.exact, self._outline = exact, device.outline
        self.points = dict[Key, Cost]()
        self.fit: Fit | None = None
        self.asked = dict[Key, None]()
        self._places, self._near = list[list[float]](), set[tuple[int, ...]]()

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """The cost of an iteration. Raises UserError."""
        if len(self.asked) < MOST:
            self.asked[tuple(sorted(pieces))] = None
        if self._far(pieces):
            key, at = tuple(sorted(pieces)), where(pieces)
            self.learn({key: self.exact.of(key)}, at)
        if self.fit is None:
            self.fit = Fit([self.outline(key) for key in self.points], list(self.points.values()))
        return self.fit.of(self.outline(pieces))

    def outline(self, pieces: Sequence[Piece]) -> Outline:
        """The work of an iteration, as its device outlines it."""
        decode = [_part(one) for one in pieces if _decodes(one)]
        prompts = [_part(one) for one in pieces if not _decodes(one)]
        found: Outline = self._outline(decode, prompts, sum(one.logits for one in pieces))
        return found

    def learn(self, points: Mapping[Key, Cost], *places: list[float]) -> None:
        """Add simulated iterations to the fit. places: their coordinates."""
        self._places += places or [where(key) for key in points if key not in self.points]
        self.points |= points
        self.fit = None

    def left_out(self, keys: Iterable[Key]) -> list[Cost]:
        """For each of these points the cost from a fit to all others."""
        outlines = {key: self.outline(key) for key in self.points}
        found = []
        for key in keys:
            others = [one for one in self.points if one != key]
            fit = Fit([outlines[one] for one in others], [self.points[one] for one in others])
            found.append(fit.of(outlines[key]))
        return found

    def _far(self, pieces: Sequence[Piece]) -> bool:
        """Whether no simulated iteration is near; asked once of those with like sums."""
        if (like := tuple(map(int.bit_length, sums(pieces)))) in self._near:
            return False
        if not self._places or ((np.array(self._places) - where(pieces)) ** 2).sum(1).min() > FAR:
            return True
        self._near.add(like)
        return False


def _part(one: Piece) -> Part:
    return Part(one.new, one.cached + one.new, None if one.channel == NOWHERE else one.channel)


def _decodes(one: Piece) -> bool:
    return one.verify or (one.new == 1 and one.cached > 0)
