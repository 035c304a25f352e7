"""The NeuPIMs study: throughput, ablation, departures and a timeline beside the published values."""

from pimloom.reports.studies import Option, Study

STUDY = Study(
    "NeuPIMs: NPU and PIM side by side, and baselines.",
    (Option("full", bool, "All models and batches of the paper; hours."),),
)
