"""Files of requests: CSV traces of arrivals and lengths, and conversations as ShareGPT has them."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec
import numpy as np

from pimloom.arch.compressed import plain_suffix
from pimloom.arch.document import read_text, short
from pimloom.arch.error import UserError
from pimloom.arch.units import ceil_div
from pimloom.workload.requests.csv_file import read_rows, whole_number

LARGEST_BYTES = 2**30
LONGEST = 2**20  # tokens of an input or an output
LATEST_S = 1e12  # about 32,000 years; a float64 tells 0.1 ms apart there
NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
CHARACTERS_PER_TOKEN = 4  # [assumed] of English text; no tokenizer is at hand
HEADERS = (
    ("timestamp", "prompt_tokens", "output_tokens"),
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),  # Azure's public traces of LLM inference
)
Trace = tuple[np.ndarray, np.ndarray, np.ndarray]


def is_trace(path: Path) -> bool:
    """Whether a file is a JSON, or a CSV whose first line is the header of a trace. Raises UserError if unreadable."""
    if plain_suffix(path) == ".json":
        return True
    first = re.split(r"[\r\n]", read_text(path, LARGEST_BYTES), maxsplit=1)[0]
    return tuple(name.strip() for name in first.split(",")) in HEADERS


def read_trace(path: Path) -> Trace:
    """Arrivals [s from the first], input and output lengths [tokens] of a CSV. Raises UserError.

    Timestamps are all in seconds, or all dates and times as ISO 8601 writes them (UTC unless one says so); none may
    fall.
    """
    rows = read_rows(path, LARGEST_BYTES)
    place, header = next(rows)
    if tuple(header) not in HEADERS:
        known = " or ".join(map(",".join, HEADERS))
        raise UserError(f"{place}: expected the header {known}, got {short(','.join(header)) or 'nothing'}")
    times: list[Time] = []
    lengths: list[list[int]] = []
    for place, row in rows:
        if len(row) != len(header):
            raise UserError(f"{place}: expected {len(header)} values, got {len(row)}")
        times.append(_time(row[0], f"{place}: {header[0]}", times))
        tokens = zip(header[1:], row[1:], strict=True)
        lengths.append([whole_number(text, 1, LONGEST, f"{place}: {name}", " tokens") for name, text in tokens])
    if not lengths:
        raise UserError(f"{path}: expected at least one request below the header")
    table = np.array(lengths, np.int64)
    return np.array([time.seconds - times[0].seconds for time in times]), table[:, 0], table[:, 1]


class Time(NamedTuple):
    """A timestamp: its seconds, and whether it was written as a date and time."""

    seconds: float
    dated: bool


def _time(text: str, place: str, before: Sequence[Time]) -> Time:
    """A timestamp behind those `before`. Raises UserError."""
    found = _number(text) or _date(text)
    if not before and _number(text) and _date(text):  # the first one settles what all are
        dashed = f"{text[:4]}-{text[4:6]}-{text[6:]}"
        raise UserError(f"{place}: {text} may be seconds or a date; write {text}.0 or {dashed}")
    kinds = ("seconds", "a date and time such as 2024-05-10 12:00:00")
    if found is None:
        raise UserError(f"{place}: expected {' or '.join(kinds)}, got {short(text) or 'nothing'}")
    if not abs(found.seconds) <= LATEST_S:
        raise UserError(f"{place}: expected at most {LATEST_S:.0e} seconds, got {short(text)}")
    if not found.dated and found.seconds < 0:
        raise UserError(f"{place}: expected at least 0 seconds, got {short(text)}")
    if before and found.dated != before[0].dated:
        raise UserError(f"{place}: expected {kinds[before[0].dated]} as in the lines before, got {short(text)}")
    if before and found.seconds < before[-1].seconds:
        raise UserError(f"{place}: earlier than the line before; expected rising times")
    return found


def _number(text: str) -> Time | None:
    return Time(float(text), False) if NUMBER.fullmatch(text) else None


def _date(text: str) -> Time | None:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return Time((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp(), True)


class _Turn(msgspec.Struct):
    speaker: str = msgspec.field(name="from")
    value: str


class _Conversation(msgspec.Struct):
    conversations: list[_Turn]


class Conversations(NamedTuple):
    """The turns of people that a model answers next, as requests: lengths [tokens, estimated], the conversation of
    each, and a note. A prompt is all that stands before the answer: what the system said, earlier turns, their
    answers."""

    prompt: np.ndarray
    output: np.ndarray
    talk: np.ndarray
    note: str


PEOPLE, MODELS = ("human", "user"), ("gpt", "chatgpt", "assistant", "bing", "bard")


def read_conversations(path: Path) -> Conversations:
    """The requests of a file as ShareGPT has it. A text has a quarter as many tokens as characters, rounded up. Raises
    UserError."""
    text = read_text(path, LARGEST_BYTES)
    try:
        found = msgspec.json.decode(text, type=list[_Conversation])
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {_placed(str(error))}; {_SHAPE}") from None
    except msgspec.DecodeError as error:
        _fail_json(path, text, str(error))
    except RecursionError:
        raise UserError(f"{path}: is nested too deeply; {_SHAPE}") from None
    rows, unanswered, empty = list[tuple[int, int, int]](), 0, 0
    for n, talk in enumerate(found):
        mine = [(prompt, output, n) for prompt, output in _turns(talk.conversations)]
        rows += (full := [row for row in mine if row[0] and row[1]])
        unanswered, empty = unanswered + (not mine), empty + len(mine) - len(full)
    if not rows:
        raise UserError(f"{path}: at $: no turn of a human that gpt answers; {_SHAPE}")
    if (longest := max(max(row[:2]) for row in rows)) > LONGEST:
        raise UserError(f"{path}: a turn of about {longest} tokens with its history; expected at most {LONGEST}")
    note = (
        f"lengths estimated as characters / {CHARACTERS_PER_TOKEN}, rounded up, not counted by a tokenizer; a prompt "
        "holds all earlier turns of its conversation"
    )
    if empty:
        note += f"; {empty} pairs without a text left out"
    if unanswered:
        note += f"; {unanswered:,} conversations without an answered turn left out"
    columns = np.array(rows, np.int64)
    return Conversations(columns[:, 0], columns[:, 1], columns[:, 2], note)


def _turns(turns: Sequence[_Turn]) -> Iterator[tuple[int, int]]:
    """Tokens of each prompt, with the whole conversation before it, and of its answer; 0: there is no text."""
    history, last = 0, _Turn("", "")
    for turn in turns:
        tokens = ceil_div(len(turn.value), CHARACTERS_PER_TOKEN)
        if last.speaker in PEOPLE and turn.speaker in MODELS:
            yield history if last.value else 0, tokens
        history, last = history + tokens, turn


_SHAPE = 'expected a list of {"conversations": [{"from": "human" or "gpt", "value": text}, ...]}'


def _placed(said: str) -> str:
    """A message of msgspec with its place first, as elsewhere."""
    match = re.fullmatch(r"(.*?)(?: - at `(.*)`)?", said, re.DOTALL)
    assert match is not None
    return f"at {match[2] or '$'}: {match[1][0].lower()}{match[1][1:].replace('`', '')}"


def _fail_json(path: Path, text: str, said: str) -> NoReturn:
    match = re.search(r"\(byte (\d+)\)", said)
    line = text.encode().count(b"\n", 0, int(match[1])) + 1 if match else text.count("\n") + 1
    raise UserError(f"{path}:{line}: not JSON: {said}; {_SHAPE}")
