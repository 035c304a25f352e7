"""Requests in the order in which they arrive: drawn from a data set's lengths, or read from a trace."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from pimloom.arch.compressed import plain_suffix
from pimloom.arch.document import nearest, short
from pimloom.arch.error import UserError
from pimloom.workload.requests.data_sets import DATA_SETS, draw
from pimloom.workload.requests.trace_file import read_conversations, read_trace

KNOWN = "sharegpt, alpaca, a CSV trace (timestamp,prompt_tokens,output_tokens) or a ShareGPT JSON"


class Workload(NamedTuple):
    """Requests. arrival_s: float64, seconds from the first, never falling; prompt_tokens, output_tokens: int64, >= 1.

    timed: whether arrivals are the source's own; else all are 0. note: how lengths came about, for a person.
    """

    name: str
    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    timed: bool
    note: str


def load_workload(source: str | Path, *, count: int | None = None, seed: int = 0) -> Workload:
    """The requests of a data set by name, of a CSV trace, or of a JSON of conversations.

    count: how many rows to draw, else as many as the data set has; of a file the first ones. seed: of the draw.
    Raises UserError: unknown name, bad file.
    """
    if count is not None and count < 1:
        raise UserError(f"count: expected at least 1 request, got {count}")
    if seed < 0:
        raise UserError(f"--seed {seed}: expected at least 0")
    text, path = str(source), Path(source)
    if text in DATA_SETS:
        return _drawn(text, count or DATA_SETS[text].rows, seed)
    if plain_suffix(path) == ".json":
        prompt, output, _, note = read_conversations(path)
        arrival_s, timed = np.zeros(len(prompt)), False
    elif plain_suffix(path) == ".csv" or path.exists():
        arrival_s, prompt, output = read_trace(path)
        timed, note = True, "arrivals and lengths of the trace"
    else:
        raise UserError(f"--requests {short(text)}: there is no such file; expected {KNOWN}{nearest(text, DATA_SETS)}")
    some = slice(count)
    return Workload(path.name, arrival_s[some], prompt[some], output[some], timed, note)


def _drawn(name: str, count: int, seed: int) -> Workload:
    rng, found = np.random.default_rng(seed), DATA_SETS[name]
    prompt, output = draw(found.prompt, count, rng), draw(found.output, count, rng)
    note = f"{count:,} rows of lengths drawn to the data set's statistics, seed {seed}"
    return Workload(name, np.zeros(count), prompt, output, False, note)
