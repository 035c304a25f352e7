"""What an iteration costs on a device: each different one simulated once."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from pimloom.arch.error import UserError
from pimloom.systems.devices.device import Device
from pimloom.systems.devices.run import LIMITS, Run
from pimloom.systems.serving.beside import side_by_side
from pimloom.systems.serving.schedulers.live import NOWHERE, Iteration
from pimloom.workload.batch import Batch, Request

ROWS = 1024  # take about as long to simulate as a second sub-batch
GROUPS = 10**7  # more than requests there are: groups of different ones never meet
Progress = Callable[[int, int], None]  # told how many are done of how many
JOULES = 1 + len(LIMITS)  # of a cost: where energies begin
Cost = list[float]  # ps; ps of a device's work of each of LIMITS at its full rate; J of all devices by cause, if known


class Piece(NamedTuple):
    """A request's part of an iteration: new tokens, those cached before, and of how many the next one is wanted.
    verify: they are drafts that are checked; pairs: of a tree of them, as in `Batch`; shared: cached tokens that the
    pieces beside it have, too; channel: where its keys and values lie, NOWHERE: where the machine puts them."""

    new: int
    cached: int
    logits: int
    verify: bool = False
    pairs: int = 0
    shared: int = 0
    group: int = 0
    channel: int = NOWHERE


class Costs(Protocol):
    """Prices of iterations."""

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """Of an iteration."""
        ...


class Exact:
    """Costs of a device. causes: of energy, in the order in which they are met, one list for all costs that are used
    together; none if the device tells none."""

    def __init__(self, device: Device, causes: list[str] | None = None) -> None:
        self.device, self.causes = device, list[str]() if causes is None else causes
        self.known: dict[tuple[Piece, ...], Cost] = {}

    @property
    def steps(self) -> int:
        """How many iterations were simulated."""
        return len(self.known)

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """An iteration, whatever the order of its requests. Raises UserError."""
        key = tuple(sorted(pieces))
        if (found := self.known.get(key)) is None:
            found = self.known[key] = self._step(key)
        return found

    def know(self, many: Sequence[Sequence[Piece]], progress: Progress = lambda done, total: None) -> None:
        """Simulate iterations that are not known yet side by side, as far as they can run and the device forgets what
        came before."""
        keys = dict.fromkeys(tuple(sorted(pieces)) for pieces in many)
        new = [key for key in keys if key not in self.known]
        if len(new) > 1 and not self.device.in_order:
            first = sorted(new, key=_effort, reverse=True)
            told = side_by_side(self._run, first, lambda done: progress(done, len(first)))
            runs = dict(zip(first, told, strict=True))
            for key in new:
                if (run := runs[key]) is not None:
                    self.known[key] = self._told(run)

    def fits(self, pieces: Sequence[Piece]) -> bool:
        """Whether caches of these requests fit side by side: those that share blocks may be too many for a device,
        which has a cache for each."""
        try:
            self.device.check(batch_of(pieces))
        except UserError:
            return False
        return True

    def _run(self, pieces: Sequence[Piece]) -> Run | None:
        try:
            return self._stepped(pieces)
        except UserError:
            return None

    def _step(self, pieces: Sequence[Piece]) -> Cost:
        return self._told(self._stepped(pieces))

    def _stepped(self, pieces: Sequence[Piece]) -> Run:
        device: Any = self.device
        where = [] if pieces[0].channel == NOWHERE else [np.array([one.channel for one in pieces], np.int64)]
        run: Run = device.step(batch_of(pieces), *where)
        return run

    def _told(self, run: Run) -> Cost:
        joules = run.energy_by_cause_j or {}
        self.causes += [cause for cause in joules if cause not in self.causes]
        work = (float(run.least_ps.get(limit, 0)) for limit in LIMITS)
        return [float(run.end_ps), *work, *(joules.get(cause, 0.0) for cause in self.causes)]


def _effort(pieces: Sequence[Piece]) -> float:
    """About how long a simulation takes beside others: whether there are sub-batches, and rows; the longest ones come
    first, so that all cores end together."""
    return (len(pieces) > 1) + sum(one.new for one in pieces) / ROWS


def batch_of(pieces: Sequence[Piece]) -> Batch:
    """What a device simulates."""
    groups = {group: i for i, group in enumerate(dict.fromkeys(one.group for one in pieces if one.group), 1)}
    return Batch(tuple(_request(one, groups) for one in pieces))


def _request(one: Piece, groups: dict[int, int]) -> Request:
    new, context = one.new, one.cached + one.new
    if one.verify and new > 1:
        return Request("verify", new, context, one.logits, pairs=one.pairs)
    group = groups[one.group] if one.shared else 0
    return Request("decode" if new == 1 and one.cached else "prefill", new, context, one.logits, one.shared, group)


def pieces_of(made: Iteration) -> list[Piece]:
    """The parts of an iteration, in the order of its requests."""
    found = list[Piece]()
    for n, p, r in zip(made.new, made.cached, made.requests, strict=True):
        if r.decoding is None:
            found.append(Piece(n, p, int(p + n >= r.known), channel=r.channel))
        else:
            mine = r.decoding.pieces(r, n, p)
            found += [one._replace(group=GROUPS * one.group + r.number + 1) if one.shared else one for one in mine]
    return found


def added(parts: Sequence[tuple[float, Cost]]) -> Cost:
    """Costs that count so much each; causes that one does not have are 0 there.

    >>> added([(0.5, [4.0, 1.0]), (2.0, [1.0])])
    [4.0, 0.5]
    """
    wide = max(len(cost) for _, cost in parts)
    found = [0.0] * wide
    for weight, cost in parts:
        for i, value in enumerate(cost):
            found[i] += weight * value
    return found
