"""The `pimloom report` command: a subcommand for each study of `pimloom.reports.studies`."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pimloom import typed
from pimloom.answer import Answer
from pimloom.arch.error import GateError, UserError
from pimloom.arch.files import together
from pimloom.commands.output import Quiet
from pimloom.reports.studies import Option, Study, folder_of, studies


class Studies(TyperGroup):
    """Studies as subcommands, which may stand behind their options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the study first. Raises UserError for an unknown one, and for an option of another one."""
        if (place := _place(args)) is None:
            return super().parse_args(ctx, args)
        study = check_study(args[place])
        rest = [*args[:place], *args[place + 1 :]]
        for arg in rest:
            check_option(study, arg.partition("=")[0])
        return super().parse_args(ctx, [study, *rest])


def _place(args: list[str]) -> int | None:
    """Where the name of the study is: the first word that is neither an option nor the value of one."""
    valued = {"--out", *(one.flag for study in studies().values() for one in study.options if one.kind is not bool)}
    for place, arg in enumerate(args):
        if not arg.startswith("-") and (place == 0 or args[place - 1] not in valued):
            return place
    return None


def check_study(name: str) -> str:
    """The name of a study as it is listed. Raises UserError."""
    known, study = studies(), name.replace("_", "-")
    if study not in known:
        from pimloom.arch.document import nearest

        raise UserError(f"unknown study {study!r}{nearest(study, known)}; known studies: {', '.join(known)}")
    return study


def check_option(study: str, flag: str) -> None:
    """Raise UserError for an option that only other studies have."""
    having = [name for name, each in studies().items() if flag in [option.flag for option in each.options]]
    if having and study not in having:
        raise UserError(f"{flag}: an option of {', '.join(having)}, not of {study}; leave it out")


def read_option(option: Option, value: object) -> object:
    """A value of Python for an option of a study. Raises UserError."""
    if option.kind is bool:
        return typed.flag(option.name, value)
    if option.kind is not int:
        return option.kind(typed.text(option.name, value))
    number = typed.count(option.name, value)
    if option.least is not None and number < option.least:
        raise UserError(f"--{option.name} {number}: expected at least {option.least}")
    return number


def default_folder(study: str) -> Path:
    """Where a report goes that nobody gave a folder, in the current one."""
    return Path("reports/out", folder_of(study))


def make_report(study: str, out: Path | None, quiet: bool, options: Mapping[str, object]) -> Answer:
    """Run a study, write its report. Raises UserError; GateError, when all is written, if a hard gate does not hold."""
    from pimloom.commands.progress import progress_bar
    from pimloom.commands.working import announced

    folder = folder_of(study)
    own = f"pimloom.{folder}_report"  # of what the room of reports may not enter
    module = import_module(own if find_spec(own) else f"pimloom.reports.{folder}.study")
    target = out or default_folder(study)
    takes, first = studies()[study].takes_s, ", less once its results are cached" if studies()[study].cached else ""
    long = [f"takes about {takes} s of a core{first}"] if takes and not options else []
    where = [] if out else [f"writes to {target.absolute()}; another folder by --out DIR"]
    said = "; ".join(long + where)

    def answer(page: Path, broken: str | None) -> Answer:
        found = {"study": study, "page": str(page), "holds": broken is None, "complaint": broken}
        return Answer(found, lambda: print(page))

    try:
        with together(), progress_bar(f"making {study}", quiet) as progress:
            page = module.run_study(target, progress if quiet or not said else announced(said, progress), **options)
    except GateError as error:
        raise GateError(str(error), answer(target / "index.html", str(error))) from None
    return answer(page, None)


def _command(name: str, study: Study) -> Callable[..., None]:
    """The function of a study's subcommand, its options as declared."""

    def command(out: Path | None, quiet: bool, **given: object) -> None:
        found = make_report(name, out, quiet, {key: value for key, value in given.items() if value})
        if not quiet:
            found.show()

    def option(name: str, kind: Any, default: object) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)

    said = f"Folder for index.html, results.json and CSV files; else {default_folder(name)} in the current folder."
    place = typer.Option("--out", metavar="DIR", help=said)
    parameters = [option("out", Annotated[Path | None, place], None)]
    for each in study.options:
        told = typer.Option(each.flag, metavar=each.metavar, help=each.help, min=each.least)
        kind, default = (bool, False) if each.kind is bool else (each.kind | None, None)
        parameters.append(option(each.name, Annotated[kind, told], default))
    parameters.append(option("quiet", Quiet, False))
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = study.help
    return command


app = typer.Typer(
    cls=Studies,
    add_completion=False,
    subcommand_metavar="STUDY [OPTIONS]",
    rich_markup_mode=None,
    epilog="Example:  pimloom report pim-gpt --out report. `pimloom report STUDY --help` has the options of a study.",
)
for _name, _study in studies().items():
    app.command(_name, epilog=f"Example:  pimloom report {_name} --out {default_folder(_name)}")(
        _command(_name, _study)
    )
