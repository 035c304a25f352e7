"""The study of CENT: the results that its authors ship, from its instructions on."""

from pimloom.reports.studies import Option, Study

STUDY = Study(
    "CENT: Llama 2 on CXL devices of PIM, no GPU.",
    (Option("every", int, "Contexts between two that are simulated; else 128, as CENT has it.", "K", 1),),
    takes_s=170,
)
