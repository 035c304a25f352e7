"""The table of a sweep as a file for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.arch.files import inert, replacing, writing

if TYPE_CHECKING:
    import pandas


def export_parquet(frame: "pandas.DataFrame", path: str | Path) -> None:
    """Write the rows as Parquet: whole, or not at all. UserError if impossible."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    with writing(path), replacing(path) as file:
        pq.write_table(table, file, write_page_checksum=True)


def export_csv(frame: "pandas.DataFrame", path: str | Path) -> None:
    """Write the rows as CSV: whole, or not at all. UserError if impossible.

    An empty cell is null, floats keep every digit, text that a spreadsheet would run as a formula gets a leading
    apostrophe; text is quoted where it must be, names always.
    """
    import pyarrow as pa
    from pyarrow import csv

    safe = frame.copy(deep=False)
    for name in frame.select_dtypes(include=["str", "object"]).columns:
        safe[name] = frame[name].map({text: inert(text) for text in frame[name].dropna().unique()})
    safe.columns = [inert(str(name)) for name in frame.columns]
    table = pa.Table.from_pandas(safe, preserve_index=False)
    with writing(path), replacing(path) as file:
        csv.write_csv(table, file, csv.WriteOptions(quoting_style="needed"))
