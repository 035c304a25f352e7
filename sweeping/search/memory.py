"""What a search knows, as Optuna's samplers take it: a study of finished trials, made anew for each batch."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from pimloom.sweeping.definition.sweep import Direction, Method
from pimloom.sweeping.search.shares import Outcome, Shares
from pimloom.sweeping.search.space import Place, Space

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_GENERATION = "NSGAIISampler:generation"  # where Optuna's NSGA-II looks for a trial's generation

_DIRECTIONS: Mapping[Direction, Literal["minimize", "maximize"]] = {"min": "minimize", "max": "maximize"}


class Memory:
    """The finished trials that a method still looks at.

    random: none. tpe: all. nsga2: the `batch` best, as NSGA-II ranks them (feasible first, then by domination, then by
    crowding); until half a batch is known, the next points are random ones. Where axes are work, a
    value counts as the share of the known points of its workload that are lower: smaller work makes no better design.
    """

    def __init__(self, method: Method, space: Space, directions: Sequence[Direction], batch: int) -> None:
        """ValueError for a method that is no search."""
        if method not in ("random", "nsga2", "tpe"):
            raise ValueError(f"{method} is not a search")
        self._method, self._space, self._batch = method, space, batch
        self._goals = directions
        with _quiet():
            self._distributions = space.distributions()
        self._trials: list[FrozenTrial] = []
        self._shares = Shares(space) if any(axis.is_work for axis in space.axes) else None
        self._known: list[tuple[Place, Outcome]] = []  # of the trials, in their order; with shares only

    def learn(self, known: Sequence[tuple[Place, Outcome]]) -> None:
        """Take in the trials of a batch, in order; points that failed are left out by the caller."""
        if self._method == "random" or not known:
            return
        with _quiet():
            if self._shares is None:
                self._trials += [self._trial(place, outcome) for place, outcome in known]
            else:
                self._shares.learn(known)
                self._known += known
                self._trials = [self._trial(place, self._shares.of(place, outcome)) for place, outcome in self._known]
            if self._method == "nsga2" and len(self._trials) > self._batch:
                study, sampler = self._study(seed=0)
                self._trials = sampler.select_parent(study, 1)  # type: ignore[attr-defined]
                if self._shares is not None:
                    places = {self._space.place(trial.params) for trial in self._trials}
                    self._known = [(place, outcome) for place, outcome in self._known if place in places]

    @contextmanager
    def drawing(self, seed: int) -> Iterator[Callable[[], Place]]:
        """A function that draws the next place, knowing those drawn before it. The sequence depends on `seed` and
        what was learnt, on nothing else."""
        with _quiet():
            study, _ = self._study(seed)
            yield lambda: self._space.place(study.ask(self._distributions).params)

    def _trial(self, place: Place, outcome: Outcome) -> "FrozenTrial":
        from optuna.trial import create_trial

        return create_trial(
            params=self._space.params(place),
            distributions=self._distributions,
            values=outcome.values,
            constraints={str(index): violation for index, violation in enumerate(outcome.violations)},
            system_attrs={_GENERATION: 0} if self._method == "nsga2" else {},
        )

    def _study(self, seed: int) -> tuple["Study", "BaseSampler"]:
        from optuna import create_study

        sampler = self._sampler(seed)
        directions = [_DIRECTIONS[goal] for goal in self._goals] or [_DIRECTIONS["min"]]
        study = create_study(directions=directions, sampler=sampler)
        study.add_trials(self._trials)
        return study, sampler

    def _sampler(self, seed: int) -> "BaseSampler":
        from optuna.samplers import NSGAIISampler, RandomSampler, TPESampler

        known = len(self._trials)
        if self._method == "tpe":
            return TPESampler(seed=seed, constant_liar=True)
        if self._method == "nsga2" and known >= max(2, self._batch // 2):
            return NSGAIISampler(population_size=min(known, self._batch), seed=seed)
        return RandomSampler(seed=seed)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's log lines and its notes on what is experimental, both of which are ours to know."""
    from optuna import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)
