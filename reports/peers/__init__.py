"""The study of peers: a decode step of the same models, batches and contexts on all systems that ship."""

from pimloom.reports.studies import Study

STUDY = Study("Peers: the same decode steps on all systems, who wins where.", takes_s=160)
