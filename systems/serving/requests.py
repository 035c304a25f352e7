"""Request lists: `seq_len,ch_idx` as NeuPIMs' simulator takes them, checked line by line."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pimloom.arch.document import TABLE_BYTES, short
from pimloom.arch.error import UserError
from pimloom.workload.requests.csv_file import read_rows, whole_number

LONGEST = 2**20  # tokens
HEADERS = (["seq_len"], ["seq_len", "ch_idx"])
Requests = tuple[np.ndarray, np.ndarray | None]


def check_header(path: Path) -> None:
    """Raise UserError unless the file begins as a list of requests does."""
    _header(path, read_rows(path, TABLE_BYTES))


def read_requests(path: Path, channels: int) -> Requests:
    """Context lengths [tokens], and the channel of each if the file says so. Raises UserError."""
    rows = read_rows(path, TABLE_BYTES)
    header = _header(path, rows)
    numbers = [_row(place, row, header, channels) for place, row in rows]
    if not numbers:
        raise UserError(f"{path}: expected at least one request below the header")
    columns = np.array(numbers, np.int64).T
    return columns[0], columns[1] if len(header) > 1 else None


def _header(path: Path, rows: Iterator[tuple[str, list[str]]]) -> list[str]:
    place, header = next(rows, (str(path), []))
    if header not in HEADERS:
        trace, found = "timestamp,prompt_tokens,output_tokens", short(",".join(header)) or "nothing"
        raise UserError(f"{place}: expected the header seq_len, seq_len,ch_idx or {trace}, got {found}")
    return header


def _row(place: str, row: list[str], header: list[str], channels: int) -> list[int]:
    if len(row) != len(header):
        raise UserError(f"{place}: expected {len(header)} values, got {len(row)}")
    limits = ((1, LONGEST), (0, channels - 1))
    return [
        whole_number(text, low, high, f"{place}: {name}")
        for name, text, (low, high) in zip(header, row, limits, strict=False)
    ]
