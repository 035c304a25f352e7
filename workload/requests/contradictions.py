"""Rows of a trace whose columns do not go with one another, or with those of another row."""

from collections.abc import Sequence
from typing import Any

from pimloom.arch.document import short
from pimloom.arch.error import UserError
from pimloom.workload.requests.csv_file import whole_number
from pimloom.workload.requests.formats import OUTPUT_IDS, RequestFormat
from pimloom.workload.requests.trace_file import LONGEST

TOKENS = "input_tok_ids"  # a prompt as its tokens
Rows = Sequence[tuple[str, dict[str, Any]]]  # place of each, and its cells


def check_rows(form: RequestFormat, table: Rows, prompt: Sequence[int], output: Sequence[int]) -> None:
    """Raise UserError for the first row that contradicts itself, or has another one's number."""
    seen = dict[str, str]()
    for (place, row), p, n in zip(table, prompt, output, strict=True):
        if form.number and (before := seen.setdefault(number := str(row[form.number]), place)) != place:
            raise UserError(
                f"{place}: {form.number}: {short(number) or 'nothing'} stands in line {before.rpartition(':')[2]}, "
                "too; expected another number for each request"
            )
        if form.total:
            _equal(place, form.total, row[form.total], p + n, f"{form.prompt} + {form.output}")
        if form.alone:
            _equal(place, form.alone, row[form.alone], 1, "a row is one request")
        _check_shared(form, place, row, p)


def _equal(place: str, name: str, text: str, value: int, why: str) -> None:
    if (found := whole_number(text, 0, 2 * LONGEST, f"{place}: {name}")) != value:
        raise UserError(f"{place}: {name}: expected {value:,}, {why}, got {found:,}")


def _check_shared(form: RequestFormat, place: str, row: dict[str, Any], prompt: int) -> None:
    """What of a prompt is equal to others' is no longer than the prompt, and is said for all of it."""
    if form.identity:
        name, tokens = form.identity
        ids, blocks = check_whole(place, name, row[name]), -(-prompt // tokens)
        if len(ids) != blocks:
            raise UserError(
                f"{place}: {name}: expected {blocks:,}, one for each {tokens} of {prompt:,} tokens, got {len(ids):,}"
            )
    if TOKENS in row and len(check_whole(place, TOKENS, row[TOKENS])) != prompt:
        raise UserError(f"{place}: {TOKENS}: expected the {prompt:,} of {form.prompt}, got {len(row[TOKENS]):,}")
    if OUTPUT_IDS in row and len(check_whole(place, OUTPUT_IDS, row[OUTPUT_IDS])) != (n := int(row[form.output])):
        raise UserError(f"{place}: {OUTPUT_IDS}: expected the {n:,} of {form.output}, got {len(row[OUTPUT_IDS]):,}")
    if "shared" in row:
        shared = whole_number(row["shared"] or "0", 0, LONGEST, f"{place}: shared")
        if shared > prompt:
            raise UserError(f"{place}: shared: expected at most the {prompt:,} tokens of the prompt, got {shared:,}")
        if shared and not row.get("group", ""):
            raise UserError(f"{place}: shared: expected a group whose requests share {shared:,} tokens, got none")


def check_whole(place: str, name: str, ids: Any) -> list[int]:
    """The same list. Raises UserError for what is none, or not of whole numbers."""
    if not isinstance(ids, list) or not all(type(one) is int for one in ids):
        raise UserError(f"{place}: {name}: expected a list of whole numbers")
    return ids
