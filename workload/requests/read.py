"""Reading a trace: CSV, JSON lines or conversations, by its columns."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pimloom.arch.compressed import plain_suffix
from pimloom.arch.document import read_text, short
from pimloom.arch.error import UserError
from pimloom.workload.requests.contradictions import TOKENS, check_rows
from pimloom.workload.requests.csv_file import csv_rows, whole_number
from pimloom.workload.requests.formats import CSV, JSON_LINES, OUTPUT_IDS, RequestFormat, described_formats
from pimloom.workload.requests.instants import instants
from pimloom.workload.requests.table import Answered, Groups, Identities, Prefix, Requests, Tokens
from pimloom.workload.requests.trace_file import LARGEST_BYTES, LONGEST, Conversations, read_conversations

Table = list[tuple[str, dict[str, Any]]]  # place of each row, and its cells
Progress = Callable[[int, int], None]
Item = TypeVar("Item")
PASSES = 3  # through all rows: cells, times, tokens
EVERY = 4096  # rows, between two steps of progress


def read(path: Path, count: int | None = None, progress: Progress = lambda done, total: None) -> Requests:
    """The requests of a file. count: how many are wanted; rows after them are not read if the format has its rows in
    the order of time. progress: of rows, done and in all, each counted once for each pass. Raises UserError."""
    if plain_suffix(path) == ".json":
        talks = read_conversations(path)
        prompts, outputs = talks.prompt.tolist(), talks.output.tolist()
        return Requests(path.name, [0] * len(prompts), prompts, outputs, talks.note, _turns(talks, prompts, outputs))
    lines = plain_suffix(path) == ".jsonl"
    try:
        form, table = _json_lines(path, count, progress) if lines else _csv(path, count, progress)
    except UserError as error:
        if not str(error).endswith("the file is empty"):
            raise
        raise UserError(f"{error}; expected {described_formats(JSON_LINES if lines else CSV)}") from None
    if not table:
        raise UserError(f"{path}: expected at least one request")
    if not form.sorted:
        table = _by_time(form, table)
    timed = _watched(table, progress, len(table), PASSES * len(table))
    arrival = instants(((f"{place}: {form.time}", str(row[form.time])) for place, row in timed), form.unit)
    if form.failed:  # what has no output may have no lengths at all
        blank = {name: "0" for name in (form.prompt, form.output, form.total) if name}
        table = [(place, row if row[form.output] else row | blank) for place, row in table]
    least = 0 if form.failed else 1
    counted = [
        (_tokens(place, row, form.prompt, least), _tokens(place, row, form.output, least))
        for place, row in _watched(table, progress, 2 * len(table), PASSES * len(table))
    ]
    prompt, output = [p for p, _ in counted], [n for _, n in counted]
    note = f"arrivals and lengths of the trace, in the format of {form.name}"
    if "NumImages" in table[0][1]:
        note += "; images are not computed"
    kept = [i for i, n in enumerate(output) if n or not form.failed]
    if failed := len(output) - len(kept):
        note += f"; {failed:,} failed ones, without output, left out"
    for (place, _), p, n in zip(table, prompt, output, strict=True):
        if not p and n:
            raise UserError(f"{place}: {form.prompt}: expected 1 to {LONGEST} tokens, got 0")
    if not kept:
        raise UserError(f"{path}: expected at least one request with output")
    check_rows(form, table, prompt, output)
    columns = ([column[i] for i in kept] for column in (arrival, prompt, output))
    arrival, prompt, output = columns
    return Requests(
        path.name, [at - arrival[0] for at in arrival], prompt, output, note, _prefix(form, [table[i] for i in kept])
    )


def _by_time(form: RequestFormat, table: Table) -> Table:
    """In the order of whole numbers of time; rows whose time is none stay where they are told of."""
    if not all(type(row[form.time]) is int for _, row in table):
        return table
    return sorted(table, key=lambda each: int(each[1][form.time]))


def _watched(items: Iterable[Item], progress: Progress, before: int, total: int) -> Iterator[Item]:
    """The same items; progress after every few."""
    for number, item in enumerate(items, 1):
        if number % EVERY == 0:
            progress(min(before + number, total), total)
        yield item


def _has(form: RequestFormat, row: dict[str, Any]) -> bool:
    """Whether a row is a request: one that failed has an output of 0."""
    return not form.failed or str(row[form.output]).strip("0") != ""


def _csv(path: Path, count: int | None, progress: Progress) -> tuple[RequestFormat, Table]:
    text = read_text(path, LARGEST_BYTES)
    rows = csv_rows(path, text)
    place, header = next(rows)
    form = _format(place, header, CSV)
    left = count if form.sorted else None
    total = text.count("\n") if left is None else left
    table: Table = []
    for place, row in _watched(rows, progress, 0, PASSES * total):
        if len(row) != len(header):
            raise UserError(f"{place}: expected {len(header)} values, got {len(row)}")
        cells = dict(zip(header, row, strict=True))
        table.append((place, cells))
        left = None if left is None else left - _has(form, cells)
        if left == 0:
            break
    return form, table


def _json_lines(path: Path, count: int | None, progress: Progress) -> tuple[RequestFormat, Table]:
    table: Table = []
    form, names = JSON_LINES[0], list[str]()
    lines = read_text(path, LARGEST_BYTES).split("\n")
    for number, line in enumerate(_watched(lines, progress, 0, PASSES * len(lines)), 1):
        place = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{place}: is no JSON; expected an object on each line") from None
        if not isinstance(row, dict):
            raise UserError(f"{place}: expected an object, got {short(line)}")
        if "sub_requests" in row:
            raise UserError(
                f"{place}: sub_requests: a session whose calls wait for one another is not modelled; write each call "
                "as a separate request, with its arrival_time_ns"
            )
        if not table:
            form, names = _format(place, list(row), JSON_LINES), list(row)
        if list(row) != names and not form.fits(list(row)):
            raise UserError(f"{place}: expected the keys {','.join(names)}, got {short(','.join(row))}")
        table.append((place, row))
        if form.sorted and len(table) == count:
            break
    return form, table


def _format(place: str, names: list[str], formats: Sequence[RequestFormat]) -> RequestFormat:
    found = next((each for each in formats if each.fits(names)), None)
    if found is None:
        told = f"unknown columns {short(','.join(names)) or 'none'}; expected {described_formats(tuple(formats))}"
        raise UserError(f"{place}: {told}{_beside(names, formats)}")
    return found


def _beside(names: Sequence[str], formats: Sequence[RequestFormat]) -> str:
    """What is there too much or too little, of the format that has the most of these columns."""
    near = max(formats, key=lambda each: len(each.columns & set(names)))
    if len(near.columns & set(names)) < 2:
        return ""
    lacks, more = near.columns - set(names), set(names) - near.columns - set(near.optional)
    parts = [f"has {','.join(sorted(lacks))}, too"] if lacks else []
    parts += [f"has no {short(','.join(sorted(more)))}"] if more else []
    return f"; the nearest {' and '.join(parts)}" if parts else ""


def _tokens(place: str, row: dict[str, Any], name: str, least: int) -> int:
    value = row[name]
    if isinstance(value, bool | float | list | dict) or value is None:
        raise UserError(f"{place}: {name}: expected a whole number, got {short(str(value))}")
    return whole_number(str(value), least, LONGEST, f"{place}: {name}", " tokens")


def _turns(talks: Conversations, prompts: list[int], outputs: list[int]) -> Prefix | None:
    """Prefixes: a turn and its answer are the beginning of the next turn of their conversation."""
    if len({*talks.talk.tolist()}) == len(talks.talk):
        return None
    whole = [prompt + output for prompt, output in zip(prompts, outputs, strict=True)]
    return Answered(Groups([str(n) for n in talks.talk], whole), prompts, outputs)


def _prefix(form: RequestFormat, table: Table) -> Prefix | None:
    if form.identity:
        name, tokens = form.identity
        blocks = [row[name] for _, row in table]
        return Identities(blocks, tokens)
    if all(TOKENS in row for _, row in table):
        if not all(OUTPUT_IDS in row for _, row in table):
            return Tokens([row[TOKENS] for _, row in table])
        lengths = ([int(row[name]) for _, row in table] for name in (form.prompt, form.output))
        return Answered(Tokens([row[TOKENS] + row[OUTPUT_IDS] for _, row in table]), *lengths)
    if "shared" in table[0][1]:
        shared = [whole_number(row["shared"] or "0", 0, LONGEST, f"{place}: shared") for place, row in table]
        return Groups([row.get("group", "") for _, row in table], shared)
    return None
