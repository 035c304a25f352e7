"""The plan of the house: which room may import which."""

import ast
import re
import sys
from collections.abc import Iterator, Set
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BELOW = {"arch", "workload", "mappers", "cycle_sim", "energy"}
SYSTEMS = {"systems", "systems/devices", "systems/fabric", "systems/memory", "systems/reference", "systems/serving"}
MAY_IMPORT: dict[str, set[str]] = {  # a room within a room is named apart: neither has the other's rights
    "arch": set(),
    "workload": {"arch"},
    "mappers": {"arch", "workload"},
    "cycle_sim": {"arch", "workload"},
    "energy": {"arch", "workload"},
    "verilog_tidy": set(),  # a package of its own
    "rtl": {"arch", "verilog_tidy"},
    "rtl/flow": {"arch", "cycle_sim", "rtl", "verilog_tidy"},
    "systems": BELOW,  # what its rooms share
    "systems/reference": {*BELOW, "systems"},  # what published simulators do otherwise
    "systems/devices": {*BELOW, "systems", "systems/reference"},
    "systems/fabric": {*BELOW, "systems"},
    "systems/memory": {*BELOW, "systems"},
    "systems/serving": {*BELOW, "systems", "systems/devices", "systems/fabric"},
    "sweeping": {*BELOW, *SYSTEMS},
    "reports": {*BELOW, *SYSTEMS, "sweeping"},
    "pimloom": {*BELOW, *SYSTEMS, "sweeping", "reports"},  # and the gates, from PORCH_OF_RTL
}
FROM_RTL_COMMANDS = {"rtl", "rtl/flow", "verilog_tidy"}
PACKAGES = {"verilog_tidy"}  # imported by their own names; the rooms are parts of pimloom
PORCH_OF_RTL = ("pimloom/rtl", "pimloom/commands/rtl")
EXCEPTIONS: dict[str, tuple[set[str], str]] = {  # file -> what it enters beyond the law, and why it still must
    "rtl/__init__.py": ({"pimloom"}, "the room's name is that of its commands in Python, `pimloom.rtl.emit`"),
    "rtl/flow/channel.py": (
        {"mappers", "systems/devices"},
        "gates against streams of mappers and numbers of functional.py",
    ),
    "rtl/flow/interleave.py": ({"mappers"}, "gates against the turns of mappers/interleave.py"),
}
TOP = {room.split("/")[0] for room in MAY_IMPORT}
BANNED_NAMES = {"utils", "common", "base", "manager", "helper"}
IMPORT = re.compile(r"\bimport\b")
AT_HEAD = re.compile(r"^[ \t]*((?:from|import)[ \t][^\n(]*(?:\([^()]*\))?)", re.MULTILINE)  # of a line
FILES = [path for room in sorted(TOP) for path in sorted((ROOT / room).rglob("*.py"))]


def imports(source: str) -> Iterator[tuple[str, str]]:
    """Every module that `source` imports, at any depth, and what it takes from it; a relative one keeps its dots."""
    for node in statements(parsed(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((module, f"{module}.{alias.name}") for alias in node.names)


def parsed(source: str) -> ast.Module:
    """Its imports, and text that looks like some, in a fifth of the time; or all, where one may be hidden."""
    found = "\n".join(AT_HEAD.findall(source))
    with suppress(SyntaxError):
        if len(IMPORT.findall(found)) == len(IMPORT.findall(source)):
            return ast.parse(found)
    return ast.parse(source)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All below a module; expressions, of which there are many more, hold none."""
    todo = [tree]
    for node in todo:
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, field, [])
            todo += inner if isinstance(inner, list) else []  # a lambda's or a choice's is an expression
        yield node


def room_of(place: str) -> str:
    """The innermost room of a file or module, both written with slashes; the porch if it is in none.

    >>> room_of("rtl/flow/synth.py"), room_of("rtl/bank.py"), room_of("api/run")
    ('rtl/flow', 'rtl', 'pimloom')
    """
    return max((room for room in MAY_IMPORT if f"{place}/".startswith(f"{room}/")), key=len, default="pimloom")


def show(names: set[str]) -> str:
    return "{" + ", ".join(map(repr, sorted(names))) + "}"


def complaints(name: str, source: str, beyond: Set[str] = frozenset()) -> list[str]:
    """What the file `name` (relative to the repository) breaks, one sentence each. beyond: what it may enter, too."""
    room = room_of(name)
    allowed = MAY_IMPORT[room] | beyond | (FROM_RTL_COMMANDS if name.startswith(PORCH_OF_RTL) else set())
    entered, found = set(), []
    for module, full in sorted(set(imports(source))):
        first, _, rest = full.partition(".")
        if not first:
            found.append(f"{name} imports {module}; write its full name, from pimloom on")
        elif first == "pimloom" and rest:
            entered.add(room_of(rest.replace(".", "/")))
        elif first in PACKAGES:
            entered.add(first)
        elif first != "pimloom" and first in TOP:
            found.append(f"{name} imports {module}; write pimloom.{module}")
    if forbidden := entered - allowed - {room}:
        may = f"only {show(allowed)}" if allowed else "nothing of ours"
        found.append(f"{name} imports {show(forbidden)}; {room} may import {may}")
    return found


@pytest.mark.parametrize("top", sorted(TOP))
def test_a_file_enters_only_the_rooms_it_may(top):
    files = {path.relative_to(ROOT).as_posix(): path for path in FILES if path.is_relative_to(ROOT / top)}
    assert files
    beyond = {name: EXCEPTIONS.get(name, (set[str](), ""))[0] for name in files}
    found = [said for name, path in files.items() for said in complaints(name, path.read_text(), beyond[name])]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_is_still_needed(name):
    beyond, why = EXCEPTIONS[name]
    source = (ROOT / name).read_text()
    assert why and all(complaints(name, source, beyond - {room}) for room in beyond)


@pytest.mark.parametrize(
    ("name", "source", "sentence"),
    [
        (
            "mappers/gemv.py",
            "from pimloom.cycle_sim.dram.stream import issue",
            "mappers/gemv.py imports {'cycle_sim'}; mappers may import only {'arch', 'workload'}",
        ),
        (
            "arch/part.py",
            "def f():\n    import pimloom.energy",
            "arch/part.py imports {'energy'}; arch may import nothing of ours",
        ),
        (
            "arch/part.py",
            "'import this'; from pimloom import (  # as (they) do\n    arch, energy)\nimport re",
            "arch/part.py imports {'energy'}; arch may import nothing of ours",
        ),
        (
            "rtl/bank.py",
            "from pimloom import energy",
            "rtl/bank.py imports {'energy'}; rtl may import only {'arch', 'verilog_tidy'}",
        ),
        (
            "rtl/bank.py",
            "from pimloom.rtl import flow",
            "rtl/bank.py imports {'rtl/flow'}; rtl may import only {'arch', 'verilog_tidy'}",
        ),
        (
            "rtl/flow/cosim.py",
            "from pimloom.energy.dram import energy\nfrom pimloom.rtl.bank import Bank",
            "rtl/flow/cosim.py imports {'energy'}; "
            "rtl/flow may import only {'arch', 'cycle_sim', 'rtl', 'verilog_tidy'}",
        ),
        (
            "energy/dram.py",
            "from pimloom.api import run",
            "energy/dram.py imports {'pimloom'}; energy may import only {'arch', 'workload'}",
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
    for source in ("from pimloom.rtl.bank import Bank", "from pimloom.rtl.flow import synth"):
        assert not complaints("pimloom/rtl_commands.py", source)
        (said,) = complaints("pimloom/cli.py", source)
        assert said.endswith(f"; pimloom may import only {show(MAY_IMPORT['pimloom'])}")


def test_verilog_tidy_needs_nothing_but_python():
    found = {
        module.partition(".")[0]
        for path in (ROOT / "verilog_tidy").rglob("*.py")
        for module, _ in imports(path.read_text())
    }
    assert "re" in found and found <= {"verilog_tidy", *sys.stdlib_module_names}


def test_names_of_files_say_what_is_inside():
    vague = [p.relative_to(ROOT).as_posix() for p in FILES if BANNED_NAMES & set(p.stem.lower().split("_"))]
    assert not vague


SPECS = {"PimSystem", "RooflineSystem", "NpuPimSystem", "ComposedSystem"}


def test_nobody_but_the_system_asks_what_kind_of_spec_it_has():
    """`System.of_kind` is the one dispatch; others ask its kind, its traits, or its device."""
    found = []
    for path in FILES:
        text = path.read_text()
        suspect = "isinstance" in text and any(spec in text for spec in SPECS)
        for node in ast.walk(ast.parse(text)) if suspect else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                named = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
                found += [path.relative_to(ROOT).as_posix()] * bool(named & SPECS)
    assert not found
