"""What a user asks a system to do, and the same once it is checked and read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

Found = TypeVar("Found", covariant=True)
Progress = Callable[[int, int], None]  # done, of how many
GENERATED = 1024  # tokens of a run, if none are asked for
COMPARED = 256  # tokens of a comparison, if none are asked for


class Asked(NamedTuple):
    """The options of `pimloom run`, as typed; None where not given."""

    system: str
    model: str
    settings: Sequence[str] | None = None
    generate: int | None = None
    prompt: int | None = None
    requests: str | None = None
    batch: int | None = None
    chunk: int | None = None
    iterations: int | None = None
    every: int | None = None
    policy: str | None = None
    tp: int | None = None
    pp: int | None = None
    devices: int | None = None
    context: int | None = None
    layers: int | None = None
    fidelity: str | None = None
    lm_head: bool | None = None
    json: str | None = None
    timeline: Path | None = None
    window: str | None = None
    check: bool = False
    seed: int = 0
    quiet: bool = False


class Work(NamedTuple, Generic[Found]):
    """Work that can begin: all that is read has been read. title: of its progress bar; long: a sentence for
    who has to wait; notes: sentences about the result, asked for when it is there."""

    title: str
    run: Callable[[Progress], Found]
    notes: Callable[[], Sequence[str]] = tuple
    long: str | None = None
