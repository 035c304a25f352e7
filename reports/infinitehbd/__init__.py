"""The InfiniteHBD study: waste, placement, cost and MFU of optical rings beside the published values."""

from pathlib import Path

from pimloom.reports.studies import Option, Study

STUDY = Study(
    "InfiniteHBD: optical rings of GPUs under faults.",
    (
        Option("faults", Path, "Fault trace in the public format; else a synthetic one.", "FILE"),
        Option("servers", int, "Servers of the trace, also those that never fail.", "N", 1),
    ),
)
