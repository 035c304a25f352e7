"""The row of a design point: where it stands, what came out or went wrong, and by what it was made."""

import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pimloom.arch.version import __version__
from pimloom.sweeping.definition.sweep import Scalar
from pimloom.sweeping.point.digests import digest_of, key_of
from pimloom.sweeping.point.results import IDENTITY, MADE_BY, Column, value_of
from pimloom.sweeping.point.shared import Base

Row = dict[str, Any]
LONGEST_ERROR = 500


class Outcome(NamedTuple):
    """Result columns by name, and the digest of what decided them."""

    values: Mapping[str, float | int | str | None]
    spec_digest: str


def result_columns(base: Base) -> list[Column]:
    """The result columns of every row of a sweep, in order; what a system has no data for is not among them."""
    return base.results


def columns_of_row(base: Base) -> list[str]:
    """Names of all columns, in order."""
    results = [column.name for column in result_columns(base)]
    return [*IDENTITY, *base.columns.values(), *results, "error", *MADE_BY]


def row_of(base: Base, point: Mapping[str, Scalar], found: Outcome | None, error: str | None, wall_s: float) -> Row:
    """The row of a point, simulated in `wall_s` on this machine: with what was found, or with what went wrong."""
    values = found.values if found else {}
    row: Row = {"point": key_of(base, point), "base_digest": digest_of(base, point)}
    row |= base.cells(point)
    row |= {column.name: value_of(values, column.name) for column in result_columns(base)}
    return row | {
        "error": error and error[:LONGEST_ERROR],
        "spec_digest": found and found.spec_digest,
        "code_digest": base.code,
        "version": __version__,
        "seed": base.seed,
        "wall_s": wall_s,
        "host": socket.gethostname(),
        "finished_utc": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
