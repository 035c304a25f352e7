"""A seeded search in fixed batches: what it asks depends on its definition and the rows before, on nothing else."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from pimloom.arch.digest import digest
from pimloom.sweeping.definition.sweep import Axis, Scalar, Sweep
from pimloom.sweeping.search.memory import Memory
from pimloom.sweeping.search.shares import Outcome
from pimloom.sweeping.search.space import Place, Space
from pimloom.sweeping.search.trials import Trials

Row = Mapping[str, object]


class Search:
    """One start of a search: `ask` for a batch, simulate it, `tell` its rows, until `ask` returns None.

    No point is asked twice, so `budget` counts distinct design points.
    The asked batches are kept in `folder`/trials: after a restart the same ones are asked again, and the caller has
    their rows. Processes on one folder ask the same.
    """

    def __init__(
        self,
        sweep: Sweep,
        folder: Path,
        objectives: Sequence[Callable[[Row], float | None]],
        violations: Sequence[Callable[[Row], float | None]] = (),
    ) -> None:
        """objectives: row -> value, in the order of `sweep.objectives`. violations: row -> number, <= 0 if met.

        ValueError if the sweep is a grid, has no budget, no objective that it needs, or a batch below 1 (nsga2: 2).
        """
        _check(sweep, objectives)
        self._sweep, self._objectives, self._violations = sweep, objectives, violations
        self._space = Space(sweep.axes)
        self._memory = Memory(sweep.method, self._space, list(sweep.objectives.values()), sweep.batch)
        self._trials = Trials(Path(folder) / "trials", self._space)
        self._basis = self._definition()
        self._number = 0
        self._taken: set[Place] = set()
        self._asked = 0
        self._pending: list[Place] = []

    @property
    def asked(self) -> int:
        """Design points that were handed out so far."""
        return self._asked

    @property
    def planned(self) -> int:
        """Design points of the whole search: the budget, or the size of the space if that is less."""
        assert self._sweep.budget is not None
        return min(self._sweep.budget, self._space.size or self._sweep.budget)

    @property
    def note(self) -> str | None:
        """One line for the user if the space holds fewer points than the budget; None otherwise."""
        span, budget = self.planned, self._sweep.budget
        return None if span == budget else f"the axes span {span:,} design points, fewer than the budget: all are run"

    def ask(self) -> list[dict[str, Scalar]] | None:
        """The next design points, at most `Sweep.batch`; None when the search is over.

        A batch that was not told yet is asked again. Raises UserError if its file cannot be written.
        """
        if not self._pending:
            wanted = self.planned - self._asked
            self._pending = self._batch()[:wanted] if wanted else []
            self._asked += len(self._pending)
        return [self._space.point(place) for place in self._pending] or None

    def tell(self, rows: Sequence[Row]) -> None:
        """The rows of the batch that was asked, in its order. One with an `error`, or for which an objective or a
        constraint has no finite number, counts as failed: it teaches nothing. ValueError for another number of rows."""
        if len(rows) != len(self._pending) or not rows:
            raise ValueError(f"{len(self._pending)} points were asked, {len(rows)} rows told")
        known = list(zip(self._pending, map(self._outcome, rows), strict=True))
        self._taken.update(self._pending)
        self._memory.learn([(place, outcome) for place, outcome in known if outcome])
        self._basis = digest(self._basis, [(place, self._decides(outcome)) for place, outcome in known])
        self._number, self._pending = self._number + 1, []

    def _batch(self) -> list[Place]:
        """The whole batch, though the budget may end within it: then a larger budget goes on where this one ends."""
        size = self._space.size
        count = self._sweep.batch if size is None else min(self._sweep.batch, size - len(self._taken))
        known = self._trials.read(self._number, self._basis, count, self._taken)
        if known is not None:
            return known
        places = self._choose(count)
        self._trials.write(self._number, self._basis, places)
        return places

    def _choose(self, count: int) -> list[Place]:
        seed = int(sha256(f"{self._sweep.seed}:{self._number}".encode()).hexdigest()[:8], 16)
        chance = random.Random(seed)
        taken = set(self._taken)
        places: list[Place] = []
        with self._memory.drawing(seed) as draw:
            for _ in range(count):
                places.append(self._fresh(draw(), taken, chance))
                taken.add(places[-1])
        return places

    def _fresh(self, drawn: Place, taken: set[Place], chance: random.Random) -> Place:
        """The drawn place; if it was asked before one near it, or with `random` any."""
        if drawn not in taken:
            return drawn
        near = None if self._sweep.method == "random" else self._space.near(drawn, taken, chance)
        return near or self._space.other(taken, chance) or drawn

    def _outcome(self, row: Row) -> Outcome | None:
        if row.get("error"):
            return None
        values = _finite(objective(row) for objective in self._objectives)
        violations = _finite(violation(row) for violation in self._violations)
        return None if values is None or violations is None else Outcome(values, violations)

    def _decides(self, outcome: Outcome | None) -> object:
        """What of an outcome the next batches depend on; random points depend on none."""
        if outcome is None or self._sweep.method == "random":
            return None
        return [outcome.values, outcome.violations]

    def _definition(self) -> str:
        axes = [
            (axis.place, axis.unit, levels, axis.low, axis.high, axis.log, *_linked(axis, levels))
            for axis, levels in zip(self._space.axes, self._space.levels, strict=True)
        ]
        sweep = self._sweep
        directions = [] if sweep.method == "random" else list(sweep.objectives.values())
        return digest(2, sweep.method, sweep.seed, sweep.batch, axes, directions)


def _linked(axis: Axis, levels: Sequence[Scalar]) -> list[dict[str, str]]:
    return [axis.sets_at(level) for level in levels] if axis.sets else []


def _finite(numbers: Iterator[float | None]) -> tuple[float, ...] | None:
    found = tuple(numbers)
    if any(number is None or not math.isfinite(number) for number in found):
        return None
    return tuple(float(number) for number in found if number is not None)


def _check(sweep: Sweep, objectives: Sequence[object]) -> None:
    least = 2 if sweep.method == "nsga2" else 1
    if sweep.budget is None or sweep.budget < 1 or sweep.batch < least:
        raise ValueError(f"{sweep.method} needs a budget of 1 or more and a batch of {least} or more")
    if len(objectives) != len(sweep.objectives) or (not objectives and sweep.method != "random"):
        raise ValueError(f"{sweep.method} needs one function per objective, and at least one objective")
