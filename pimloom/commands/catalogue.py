"""The `pimloom list` and `pimloom explain` commands, and what they find."""

from collections.abc import Mapping
from typing import Annotated

import typer

from pimloom.answer import Answer
from pimloom.commands.output import Json
from pimloom.commands.output import answer as give

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command("list", epilog="Example:  pimloom list --json -")
def list_(json: Json = None) -> Answer:
    """List parts, systems, AiM devices, controllers, GPUs, models and studies."""
    return give(listing(), json)


@app.command(epilog="Example:  pimloom explain dram.timing.tCCD_L")
def explain(
    field: Annotated[
        str | None,
        typer.Argument(help="Field of a system or a result, what it begins with (faults), standard or name; else all."),
    ] = None,
    json: Json = None,
) -> Answer:
    """Explain a field of a system: meaning, unit, values, source, rules; or of a result; or what a standard models."""
    return give(explained(field), json)


def listing() -> Answer:
    """Everything that has a name, by its kind."""
    from pimloom.reports.terminal.catalogue import catalogue, show_catalogue

    found = catalogue()
    named = [(kind, name, about) for kind, some in found.items() for name, about in some.items()]
    rows = [dict(zip(("kind", "name", "about"), row, strict=True)) for row in named]
    return Answer(found, lambda: show_catalogue(found), rows)


def explained(field: str | None) -> Answer:
    """A field of a system or a result, those below what it begins with, a standard, or what has a name; all fields of
    systems for None. Raises UserError."""
    from pimloom.reports.explain import all_fields, explain, fields_below, general
    from pimloom.reports.explain_named import explain_named
    from pimloom.reports.explain_result import explain_result
    from pimloom.reports.explain_standard import explain_standard, standards
    from pimloom.reports.terminal.catalogue import show_explanation, show_result_field, show_standard

    if field is None:
        return _meanings(all_fields())
    if field.lower() in standards():
        standard = explain_standard(field.lower())
        return Answer(standard._asdict(), lambda: show_standard(standard))
    if below := fields_below(field):
        return _meanings(below)
    of_result = explain_result(field)
    if of_result and general(field) not in all_fields():
        return Answer(of_result._asdict(), lambda: show_result_field(of_result))
    named = explain_named(field) if general(field) not in all_fields() else None
    found = named or explain(field)
    values = [value._asdict() for value in found.values]
    if not of_result:
        where = "key" if named else "in"
        return Answer(found._asdict() | {"values": values}, lambda: show_explanation(found, where), values)
    both = found._asdict() | {"values": values, "meanings": of_result.meanings}

    def show() -> None:
        show_explanation(found)
        show_result_field(of_result)

    return Answer(both, show, values)


def _meanings(fields: Mapping[str, str]) -> Answer:
    from pimloom.reports.terminal.catalogue import show_fields

    rows = [{"field": field, "meaning": meaning} for field, meaning in fields.items()]
    return Answer(fields, lambda: show_fields(fields), rows)
