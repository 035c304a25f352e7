"""Request lists: `seq_len,ch_idx` as NeuPIMs' simulator takes them, checked line by line."""

import csv
from pathlib import Path

import numpy as np

from pimloom.arch.document import read_text, short
from pimloom.arch.error import UserError

LONGEST = 2**20  # tokens
Requests = tuple[np.ndarray, np.ndarray | None]


def read_requests(path: Path, channels: int) -> Requests:
    """Context lengths [tokens], and the channel of each if the file says so. Raises UserError."""
    rows = list(csv.reader(read_text(path).splitlines()))
    header = [name.strip() for name in rows[0]] if rows else []
    if header not in (["seq_len"], ["seq_len", "ch_idx"]):
        found = short(",".join(header)) if header else "nothing"
        trace = "timestamp,prompt_tokens,output_tokens"
        raise UserError(f"{path}:1: expected the header seq_len, seq_len,ch_idx or {trace}, got {found}")
    numbers = [_row(path, line, row, len(header), channels) for line, row in enumerate(rows[1:], 2) if row]
    if not numbers:
        raise UserError(f"{path}: expected at least one request below the header")
    columns = np.array(numbers, np.int64).T
    return columns[0], columns[1] if len(header) > 1 else None


def _row(path: Path, line: int, row: list[str], width: int, channels: int) -> list[int]:
    if len(row) != width:
        raise UserError(f"{path}:{line}: expected {width} values, got {len(row)}")
    for name, text, low, high in zip(("seq_len", "ch_idx"), row, (1, 0), (LONGEST, channels - 1), strict=False):
        if not text.strip().isdecimal() or not low <= int(text) <= high:
            raise UserError(f"{path}:{line}: {name}: expected {low} to {high}, got {short(text) or 'nothing'}")
    return [int(text) for text in row]
