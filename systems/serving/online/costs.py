"""What an iteration costs on a device: each different one simulated once."""

from collections.abc import Sequence
from typing import NamedTuple

from pimloom.systems.devices.device import Device
from pimloom.workload.batch import Batch, Phase, Request

Cost = list[float]  # ps, then J of all devices by cause, or nothing if there is no energy


class Piece(NamedTuple):
    """A request's part of an iteration: new tokens, those cached before, and of how many the next one is wanted: more
    than one where drafted tokens are checked."""

    new: int
    cached: int
    logits: int


class Exact:
    """Costs of so many equal stages of a device. causes: of energy, in the order in which they are met, by all that
    share it; none if the device tells none."""

    def __init__(self, device: Device, causes: list[str], stages: int = 1) -> None:
        self.device, self.causes, self.stages = device, causes, stages
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

    def _step(self, pieces: Sequence[Piece]) -> Cost:
        run = self.device.step(batch_of(pieces))
        joules = run.energy_by_cause_j or {}
        self.causes += [cause for cause in joules if cause not in self.causes]
        return [float(self.stages * run.end_ps), *(self.stages * joules.get(cause, 0.0) for cause in self.causes)]


def batch_of(pieces: Sequence[Piece]) -> Batch:
    """What a device simulates."""
    return Batch(tuple(Request(_phase(piece), piece.new, piece.cached + piece.new, piece.logits) for piece in pieces))


def _phase(piece: Piece) -> Phase:
    if piece.logits > 1:
        return "verify"
    return "decode" if piece.new == 1 and piece.cached else "prefill"


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
