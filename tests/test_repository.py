"""Rules for the files themselves."""

import doctest
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("arch", "cycle_sim", "energy", "mappers", "pimloom", "reports", "sweeping", "systems", "workload")
PYTHON = [path for room in (*ROOMS, "rtl", "verilog_tidy") for path in sorted((ROOT / room).rglob("*.py"))]
YAML = sorted((ROOT / "arch").rglob("*.yaml"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tracked() -> list[Path]:
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for line in listed.stdout.split("\0") if line and (path := ROOT / line).is_file()]


def test_no_file_names_a_registry_host_or_a_path_of_one_machine():
    # Written so that this file does not match itself.
    hosts = ["pypi[.]org", "pythonhosted[.]org", "registry[.]npmjs", "deb[.]debian", "--(extra-)?index-url"]
    paths = ["(?<![\\w./])/(work|root|home|Users|opt)/"]
    banned = re.compile("|".join(hosts + paths))
    found = []
    for path in tracked():
        text = path.read_text(errors="replace")
        for number, line in enumerate(text.splitlines() if banned.search(text) else (), 1):
            if path != Path(__file__) and (hit := banned.search(line)):
                found.append(f"{name(path)}:{number}: {hit[0]}")
    assert not found, "\n".join(found)


def scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """All values below `node`, but no keys."""
    match node:
        case yaml.ScalarNode():
            yield node
        case yaml.SequenceNode():
            for item in node.value:
                yield from scalars(item)
        case yaml.MappingNode():
            for _, item in node.value:
                yield from scalars(item)


@pytest.mark.parametrize("path", YAML, ids=name)
def test_every_number_names_its_source_on_its_line(path):
    text = path.read_text()
    lines = text.splitlines()
    bare = {
        node.start_mark.line
        for node in scalars(yaml.compose(text, yaml.SafeLoader))
        if re.match(r"[-+.]*\d", node.value)
        and not re.search(r"\s#\s*\S", lines[node.end_mark.line][node.end_mark.column :])
    }
    found = [f"{name(path)}:{number + 1}: {lines[number].strip()}" for number in sorted(bare)]
    assert not found, "numbers without a source:\n" + "\n".join(found)


def test_files_stay_short_enough_to_read():
    found = []
    for path in PYTHON:
        lines, limit = len(path.read_text().splitlines()), 600
        if lines > limit:
            found.append(f"{name(path)} has {lines} lines; {limit} is the limit")
    assert PYTHON
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", [p for p in PYTHON if ">>> " in p.read_text()], ids=name)
def test_examples_in_docstrings_are_true(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    module = module if module.startswith(("pimloom", "verilog_tidy")) else f"pimloom.{module}"
    failed, attempted = doctest.testmod(importlib.import_module(module))
    assert attempted and not failed
