"""The study of the hardware in gates: area, clock and proofs beside the published values."""

from pimloom.reports.studies import Study

STUDY = Study("The hardware in gates: area, checks and proofs.", takes_s=3600, cached=True)
