"""The study of Duplex: decode steps of models with experts, on a GPU-class processor and HBM that computes."""

from pimloom.reports.studies import Study

STUDY = Study("Duplex: experts and attention on HBM's logic die.", takes_s=70)
