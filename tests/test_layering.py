"""The plan of the house: which room may import which."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT: dict[str, set[str]] = {
    "arch": set(),
    "mappers": {"arch"},
    "cycle_sim": {"arch"},
    "rtl": {"arch"},
    "energy": {"arch"},
    "reports": {"arch", "mappers", "cycle_sim", "energy"},
    "pimloom": {"arch", "mappers", "cycle_sim", "energy", "reports"},  # and rtl, from pimloom/rtl*.py
}
BANNED_NAMES = {"utils", "common", "base", "manager", "helper"}
FILES = [path for room in MAY_IMPORT for path in sorted((ROOT / room).rglob("*.py"))]


def imports(source: str) -> Iterator[str]:
    """Every module that `source` imports, at any depth; a relative import keeps its dots."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" if module == "pimloom" else module for alias in node.names)


def show(names: set[str]) -> str:
    return "{" + ", ".join(map(repr, sorted(names))) + "}"


def complaints(name: str, source: str) -> list[str]:
    """What the file `name` (relative to the repository) breaks, one sentence each."""
    room = name.split("/")[0]
    allowed = MAY_IMPORT[room] | ({"rtl"} if name.startswith("pimloom/rtl") else set())
    entered, found = set(), []
    for module in sorted(set(imports(source)) - {"pimloom.__version__"}):
        first, _, rest = module.partition(".")
        if not first:
            found.append(f"{name} imports {module}; write its full name, from pimloom on")
        elif first == "pimloom" and rest:
            second = rest.split(".")[0]
            entered.add(second if second in MAY_IMPORT else "pimloom")
        elif first != "pimloom" and first in MAY_IMPORT:
            found.append(f"{name} imports {module}; write pimloom.{module}")
    if forbidden := entered - allowed - {room}:
        may = f"only {show(allowed)}" if allowed else "nothing of ours"
        found.append(f"{name} imports {show(forbidden)}; {room} may import {may}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_file_enters_only_the_rooms_it_may(path):
    found = complaints(path.relative_to(ROOT).as_posix(), path.read_text())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "source", "sentence"),
    [
        (
            "mappers/gemv.py",
            "from pimloom.cycle_sim.dram import issue",
            "mappers/gemv.py imports {'cycle_sim'}; mappers may import only {'arch'}",
        ),
        (
            "arch/part.py",
            "def f():\n    import pimloom.energy",
            "arch/part.py imports {'energy'}; arch may import nothing of ours",
        ),
        (
            "rtl/bank.py",
            "from pimloom import energy",
            "rtl/bank.py imports {'energy'}; rtl may import only {'arch'}",
        ),
        (
            "energy/dram.py",
            "from pimloom.api import run",
            "energy/dram.py imports {'pimloom'}; energy may import only {'arch'}",
        ),
        (
            "energy/dram.py",
            "from arch.units import PS",
            "energy/dram.py imports arch.units; write pimloom.arch.units",
        ),
        (
            "energy/dram.py",
            "from .asic import power",
            "energy/dram.py imports .asic; write its full name, from pimloom on",
        ),
    ],
)
def test_the_law_bites(name, source, sentence):
    assert complaints(name, source) == [sentence]


def test_only_its_own_command_enters_the_rtl():
    source = "from pimloom.rtl.bank import Bank"
    assert not complaints("pimloom/rtl_commands.py", source)
    assert complaints("pimloom/cli.py", source) == [
        "pimloom/cli.py imports {'rtl'}; pimloom may import only {'arch', 'cycle_sim', 'energy', 'mappers', 'reports'}"
    ]


def test_names_of_files_say_what_is_inside():
    vague = [p.relative_to(ROOT).as_posix() for p in FILES if BANNED_NAMES & set(p.stem.lower().split("_"))]
    assert not vague
