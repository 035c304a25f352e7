"""The table of a sweep as a file for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.reports.files import inert, replacing, writing

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
    apostrophe.
    """
    safe = frame.copy(deep=False)
    for name in frame.select_dtypes(include=["str", "object"]).columns:
        texts = {text: inert(text) for text in frame[name].dropna().unique()}
        safe[name] = frame[name].map(texts)
    safe.columns = [inert(str(name)) for name in frame.columns]
    with writing(path), replacing(path) as file:
        safe.to_csv(file, index=False, lineterminator="\n")
