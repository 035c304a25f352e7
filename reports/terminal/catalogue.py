"""Everything that has a name, and what fields and standards mean."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pimloom.arch.llm import list_presets, load_llm
from pimloom.arch.names import heading, list_names
from pimloom.reports.studies import studies
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.workload.need import weights

if TYPE_CHECKING:
    from pimloom.reports.explain import Explanation
    from pimloom.reports.explain_result import ResultField
    from pimloom.reports.explain_standard import Explained


LINES = {  # of each kind, from the values at the top of a file
    **dict.fromkeys(("parts", "optics", "systems"), "{description}"),
    "aim_devices": "{description}",
    "controllers": "{structure}, {scheduler}, {page} page, refresh {refresh}",
    "gpus": "{description}",
}


def catalogue() -> dict[str, dict[str, str]]:
    """Parts, optical parts, systems, AiM devices, controllers, GPUs, models and studies: name -> one line."""
    models = {}
    for name in list_presets():
        spec = load_llm(name)
        models[name] = (
            f"{spec.num_hidden_layers} layers, hidden {spec.hidden_size}, {spec.num_attention_heads} heads, "
            f"{weights(spec).blocks / 1e6:,.1f} M matrix parameters"
        )
    return {
        **{kind: {name: _said(kind, name) for name in list_names(kind)} for kind in LINES},
        "models": models,
        "studies": {name: f"pimloom report {name} --out DIR" for name in studies()},
    }


def _said(kind: str, name: str) -> str:
    """The line of a file. Raises UserError for one that cannot be read, or lacks what the line says."""
    try:
        return LINES[kind].format_map(heading("parts" if kind == "optics" else kind, name))
    except (ValueError, KeyError):
        _load(kind, name)  # says what is wrong, and where
        raise


def _load(kind: str, name: str) -> None:
    from pimloom.arch.aim_file import load_aim
    from pimloom.arch.optics import load_optics
    from pimloom.arch.policy import load_policy
    from pimloom.arch.system import load_part, load_system
    from pimloom.arch.training import load_training

    loaders = (load_part, load_optics, load_system, load_aim, load_policy, load_training)
    dict[str, Callable[[str], object]](zip(LINES, loaders, strict=True))[kind](name)


def show_catalogue(found: Mapping[str, Mapping[str, str]]) -> None:
    """Print the catalogue."""
    for kind, names in found.items():
        show_rows(
            (("name", kind, ""), ("about", "", "")), [{"name": name, "about": line} for name, line in names.items()]
        )


def show_fields(fields: Mapping[str, str]) -> None:
    """Print all fields with their meaning."""
    rows = [{"field": field, "meaning": meaning} for field, meaning in fields.items()]
    show_rows((("field", "field", ""), ("meaning", "meaning", "")), rows)


def show_explanation(found: "Explanation", where: str = "in") -> None:
    """Print everything known of a field. where: what stands above the names of its values."""
    show_line(f"{found.field}: {found.meaning}")
    if found.values:
        headings = zip(found.values[0]._fields, (where, "value", "source", "file"), strict=True)
        show_rows([(field, heading, "") for field, heading in headings], [value._asdict() for value in found.values])
    for rule in found.rules:
        show_line(f"rule: {rule}")


def show_result_field(found: "ResultField") -> None:
    """Print what a field of a result means in each kind of result."""
    show_line(found.field + (f" [{found.unit}]" if found.unit else ""))
    for meaning in found.meanings:
        show_line(meaning)


def show_standard(found: "Explained") -> None:
    """Print what a standard's table models, and what not."""
    show_line(f"{found.standard}: {found.meaning}")
    show_line(f"parts: {', '.join(found.parts) or 'none'}")
    for title, rows in (("command", found.commands), ("rule", found.rules), ("not modelled", found.unmodelled)):
        for row in rows:
            show_line(f"{title}: {row}")
