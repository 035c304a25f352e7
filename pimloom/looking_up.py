"""The public Python API: `pimloom.list`, `pimloom.explain`, `pimloom.report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pimloom import typed
from pimloom.arch.error import UserError
from pimloom.edge import ask, public

if TYPE_CHECKING:
    from pimloom.answer import Answer


@public
def list_() -> "Answer":
    """Names of parts, systems, controllers, GPUs, models and studies, with a line on each; a field for each kind.

    >>> "pim_gpt" in list_().systems
    True
    >>> list(list_().to_frame().columns)
    ['kind', 'name', 'about']
    """
    from pimloom.commands.catalogue import listing

    return listing()


@public
def explain(field: str | None = None) -> "Answer":
    """A dotted field (meaning, unit, values, source, rules), all below what it begins with, or a standard; else all.

    >>> explain("dram.timing.tCCD_L").field
    'dram.timing.tCCD_L'
    """
    from pimloom.commands.catalogue import explain as command
    from pimloom.commands.catalogue import explained

    return ask(command, locals(), explained)


@public
def report(study: str, *, out: str | Path | None = None, **options: Any) -> "Answer":
    """Run a study and write its report; `page` is its index.html. Minutes; `pimloom report STUDY --help` has `options`.

    out: a folder, else reports/out/STUDY in the current one. A hard gate that does not hold is no error: all is
    written, `holds` is False and `complaint` says which.
    """
    from pimloom.commands.report import check_study, make_report, read_option
    from pimloom.reports.studies import studies

    study = check_study(typed.text("study", study))
    known = {option.name: option for option in studies()[study].options}
    for name in options:
        if name not in known:
            others = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UserError(f"{name}: {study} has no such option; {others}")
    given = {name: read_option(known[name], value) for name, value in options.items() if value is not None}
    asked = {name: value for name, value in given.items() if value is not False}
    return make_report(study, None if out is None else Path(typed.text("out", out)), True, asked)
