"""The PIM-GPT study: latency, energy and ablations beside the published values."""

from pimloom.reports.studies import Study

STUDY = Study("PIM-GPT: one ASIC and eight PIM channels.")
