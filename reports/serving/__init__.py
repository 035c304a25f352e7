"""The study of serving: which machine serves a trace best, and all studies of serving beside what is published."""

from pimloom.reports.studies import Study

STUDY = Study(
    "Serving: which machine serves a trace best; what schedulers, drafts, branches and few bits gain.", takes_s=780
)
