"""What a DRAM standard's table models, and what it leaves out."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pimloom.arch.dram
from pimloom.arch.command import Row, Standard
from pimloom.arch.standard import join_tables
from pimloom.arch.system import list_names, load_part


class Explained(NamedTuple):
    """A standard in words. parts: those that follow it."""

    standard: str
    meaning: str
    parts: list[str]
    commands: list[str]
    rules: list[str]
    unmodelled: list[str]


def standards() -> list[str]:
    """Names of the tables in arch/dram."""
    folder = Path(pimloom.arch.dram.__file__).parent
    return sorted(p.stem for p in folder.glob("*.py") if p.stem != "__init__")


def explain_standard(name: str) -> Explained:
    """A standard of `standards` in words: every command, every rule, and what is left out."""
    found = join_tables(name, None)
    module = __import__(f"pimloom.arch.dram.{name}", fromlist=["STANDARD"])
    return Explained(
        standard=name,
        meaning=(module.__doc__ or "").strip().splitlines()[0],
        parts=[part for part in list_names("parts") if load_part(part).value.standard == name],
        commands=list(_commands(found)),
        rules=[_rule(found, str(rule), rule.wait) for rule in found.rules],
        unmodelled=list(found.unmodelled),
    )


def _commands(standard: Standard) -> Iterator[str]:
    for command in standard.commands:
        needs = {Row.ANY: "", Row.OPEN: ", needs its row open", Row.CLOSED: ", needs closed rows"}[command.needs]
        where = command.scope.name.lower().replace("_", " ")
        yield _rule(
            standard, f"{command.name}: {command.meaning} ({where}{needs}; done after {command.done})", command.done
        )


def _rule(standard: Standard, said: str, expression: str) -> str:
    """With a mark if it holds only where the part gives an optional timing."""
    optional = [name for name in standard.optional if name in expression.replace("+", " ").replace("-", " ").split()]
    return f"{said} [where the part gives {', '.join(optional)}]" if optional else said


def standards_page() -> str:
    """All standards as Markdown: docs/standards.md."""
    lines = [
        "# DRAM standards: what is modelled",
        "",
        "Made from `arch/dram` by `python -m pimloom.reports.explain_standard`; a test says if it is out of date.",
        "A rule reads: earlier commands → later commands, where it counts: least distance in clocks.",
    ]
    for name in standards():
        found = explain_standard(name)
        lines += ["", f"## {name}", "", found.meaning, "", f"Parts: {', '.join(found.parts) or 'none'}.", ""]
        for title, rows in (("Commands", found.commands), ("Rules", found.rules), ("Not modelled", found.unmodelled)):
            lines += [f"**{title}**", "", *(f"- {row}" for row in rows), ""]
        lines.pop()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path("docs/standards.md").write_text(standards_page(), encoding="utf-8")
