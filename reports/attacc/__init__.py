"""The study of AttAcc: attention of decode steps on stacks of HBM, beside GPUs that do it themselves."""

from pimloom.reports.studies import Study

STUDY = Study("AttAcc: stacks of HBM that attend, beside GPUs.")
