"""Files of requests: CSV traces of arrivals and lengths, and conversations as ShareGPT has them."""

import csv
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np

from pimloom.arch.document import read_text, short
from pimloom.arch.error import UserError
from pimloom.arch.units import ceil_div

LARGEST_BYTES = 2**30
LONGEST = 2**20  # tokens of an input or an output
CHARACTERS_PER_TOKEN = 4  # [assumed] of English text; no tokenizer is at hand
HEADERS = (
    ("timestamp", "prompt_tokens", "output_tokens"),
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),  # Azure's public traces of LLM inference
)
Trace = tuple[np.ndarray, np.ndarray, np.ndarray]


def is_trace(path: Path) -> bool:
    """Whether a file is a JSON, or a CSV whose first line is the header of a trace. Raises UserError if unreadable."""
    if path.suffix == ".json":
        return True
    first = read_text(path, LARGEST_BYTES).split("\n", 1)[0]
    return tuple(name.strip() for name in first.split(",")) in HEADERS


def read_trace(path: Path) -> Trace:
    """Arrivals [s from the first], input and output lengths [tokens] of a CSV. Raises UserError.

    A timestamp is in seconds, or a date and time as ISO 8601 writes it (UTC unless it says so); none may fall.
    """
    rows = csv.reader(read_text(path, LARGEST_BYTES).splitlines())
    header = tuple(name.strip() for name in next(rows))
    if header not in HEADERS:
        known = " or ".join(map(",".join, HEADERS))
        raise UserError(f"{path}:1: expected the header {known}, got {short(','.join(header)) or 'nothing'}")
    arrival_s: list[float] = []
    lengths: list[tuple[int, int]] = []
    for row in rows:
        if not row:
            continue
        place = f"{path}:{rows.line_num}"
        if len(row) != len(header):
            raise UserError(f"{place}: expected {len(header)} values, got {len(row)}")
        at = _seconds(row[0].strip(), f"{place}: {header[0]}")
        if arrival_s and at < arrival_s[-1]:
            raise UserError(f"{place}: {header[0]}: earlier than the line before; expected rising times")
        arrival_s.append(at)
        prompt, output = (
            _tokens(text.strip(), f"{place}: {name}") for name, text in zip(header[1:], row[1:], strict=True)
        )
        lengths.append((prompt, output))
    if not lengths:
        raise UserError(f"{path}: expected at least one request below the header")
    tokens = np.array(lengths, np.int64)
    return np.array(arrival_s) - arrival_s[0], tokens[:, 0], tokens[:, 1]


def _seconds(text: str, place: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = datetime.fromisoformat(text)
        except ValueError:
            seconds = math.nan
        else:
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds):
        said = short(text) or "nothing"
        raise UserError(f"{place}: expected seconds or a date and time such as 2024-05-10 12:00:00, got {said}")
    return seconds


def _tokens(text: str, place: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18 or not 1 <= int(text) <= LONGEST:
        raise UserError(f"{place}: expected 1 to {LONGEST} tokens, got {short(text) or 'nothing'}")
    return int(text)


class _Turn(msgspec.Struct):
    speaker: str = msgspec.field(name="from")
    value: str


class _Conversation(msgspec.Struct):
    conversations: list[_Turn]


def read_conversations(path: Path) -> tuple[np.ndarray, np.ndarray, str]:
    """Input and output lengths [tokens, estimated] of each turn of a human that gpt answers next, and a note.

    A length is a quarter of the characters, rounded up. Raises UserError.
    """
    text = read_text(path, LARGEST_BYTES)
    try:
        found = msgspec.json.decode(text, type=list[_Conversation])
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {_placed(str(error))}; {_SHAPE}") from None
    except msgspec.DecodeError as error:
        _fail_json(path, text, str(error))
    lengths, empty = [], 0
    for talk in found:
        for asked, answer in zip(talk.conversations, talk.conversations[1:], strict=False):
            if (asked.speaker, answer.speaker) == ("human", "gpt"):
                if asked.value and answer.value:
                    lengths.append([ceil_div(len(x.value), CHARACTERS_PER_TOKEN) for x in (asked, answer)])
                else:
                    empty += 1
    if not lengths:
        raise UserError(f"{path}: at $: no turn of a human that gpt answers; {_SHAPE}")
    if (longest := max(map(max, lengths))) > LONGEST:
        raise UserError(f"{path}: a turn of about {longest} tokens; expected at most {LONGEST}")
    note = f"lengths estimated as characters / {CHARACTERS_PER_TOKEN}, rounded up, not counted by a tokenizer"
    if empty:
        note += f"; {empty} pairs without a text left out"
    tokens = np.array(lengths, np.int64)
    return tokens[:, 0], tokens[:, 1], note


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
