"""Rows of numbers as lines of CSV, compiled."""

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, entry

DECIMAL, HEXADECIMAL, WORD = range(3)  # kind of a column
LONGEST_CELL = 21  # bytes, with its comma


def word_table(words: tuple[str, ...]) -> np.ndarray:
    """words[k] = length, then its bytes, of a word of at most 15 letters."""
    table = np.zeros((len(words), 16), np.uint8)
    for row, word in zip(table, words, strict=True):
        row[0] = len(word)
        row[1 : len(word) + 1] = np.frombuffer(word.encode(), np.uint8)
    return table


@entry
def write_lines(table: np.ndarray, kind: np.ndarray, words: np.ndarray, out: np.ndarray) -> int:
    """Write the rows of int64[n, columns] as lines; returns how many bytes of `out` they take.

    kind[k]: how column k is written; a WORD is a number of `words`. `out` has LONGEST_CELL bytes for each cell.
    """
    at = 0
    for r in range(table.shape[0]):
        for k in range(table.shape[1]):
            value = table[r, k]
            if kind[k] == WORD:
                for i in range(words[value, 0]):
                    out[at] = words[value, 1 + i]
                    at += 1
            elif kind[k] == HEXADECIMAL:
                at = _hexadecimal(value, out, at)
            else:
                at = _decimal(value, out, at)
            out[at] = 44  # a comma
            at += 1
        out[at - 1] = 10  # the line ends
    return at


@bare
def _decimal(value: int, out: np.ndarray, at: int) -> int:
    if value < 0:
        out[at] = 45
        at, value = at + 1, -value
    rest, digits = value, 1
    while rest >= 10:
        rest, digits = rest // 10, digits + 1
    for i in range(at + digits - 1, at - 1, -1):
        out[i] = 48 + value % 10
        value //= 10
    return at + digits


@bare
def _hexadecimal(value: int, out: np.ndarray, at: int) -> int:
    out[at], out[at + 1] = 48, 120
    at, rest, digits = at + 2, value, 1
    while rest >= 16:
        rest, digits = rest >> 4, digits + 1
    for i in range(at + digits - 1, at - 1, -1):
        digit = value & 15
        out[i] = 48 + digit if digit < 10 else 87 + digit
        value >>= 4
    return at + digits
