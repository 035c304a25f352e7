"""Requests of a workload as plain data: contexts of one iteration, or arrivals and lengths of many."""

from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from pimloom.systems.serving.requests import read_requests
from pimloom.systems.serving.workload import Workload, load_workload
from pimloom.workload.requests.data_sets import DATA_SETS
from pimloom.workload.requests.trace_file import is_trace

MOST_CHANNELS = 256  # that a list may name


class Given(msgspec.Struct, frozen=True):
    """Requests by name. tokens, channel: contexts of a list and where they lie; else the fields of a `Workload`.

    All empty of a data set, whose lengths are drawn where they are needed.
    """

    name: str
    tokens: list[int] | None = None
    channel: list[int] | None = None
    arrival_s: list[float] | None = None
    prompt_tokens: list[int] | None = None
    output_tokens: list[int] | None = None
    timed: bool = False
    note: str = ""


def read_given(source: str) -> Given:
    """Read what `workload.requests` names: a data set, a list or a trace. Raises UserError."""
    path = Path(source)
    if source in DATA_SETS:
        return Given(source)
    if path.exists() and not path.is_dir() and not is_trace(path):
        tokens, channel = read_requests(path, MOST_CHANNELS)
        return Given(path.name, tokens.tolist(), None if channel is None else channel.tolist())
    found = load_workload(source)
    return Given(
        found.name,
        None,
        None,
        found.arrival_s.tolist(),
        found.prompt_tokens.tolist(),
        found.output_tokens.tolist(),
        found.timed,
        found.note,
    )


def workload_of(given: Given, seed: int) -> Workload:
    """The requests as `systems.serving` takes them."""
    if given.arrival_s is None:
        return _drawn(given.name, seed)
    return Workload(
        given.name,
        np.array(given.arrival_s, np.float64),
        np.array(given.prompt_tokens, np.int64),
        np.array(given.output_tokens, np.int64),
        given.timed,
        given.note,
    )


@lru_cache(maxsize=2)
def _drawn(name: str, seed: int) -> Workload:
    return load_workload(name, seed=seed)
