"""The study of serving: what decoding transforms gain, and what changes when the machine is PIM."""

from pimloom.reports.studies import Study

STUDY = Study("Serving: what drafts, branches, few bits and sparse attention gain, on processors and on PIM.")
