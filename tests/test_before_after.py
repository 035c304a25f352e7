"""The comparing half of `tests.before_after`: what may differ, what may not, and how it is said."""

import json
from pathlib import Path

import pytest

from tests.before_after import RUNS, differences, first_difference, lasting


def made(folder: Path, **texts: str) -> Path:
    """A record with these files."""
    for name, text in texts.items():
        file = folder / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_versions_and_wall_times_may_differ(tmp_path):
    before = made(tmp_path / "a", out_json='{"version": "1.0", "wall_s": 1.5e-3, "n": 1}', t_csv="a,wall_s\n1,2\n")
    after = made(tmp_path / "b", out_json='{"version": "2.0", "wall_s": 7, "n": 1}', t_csv="a,wall_s\n1,3\n")
    assert not list(differences(before, after))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("out_json", '{"n": 1}', '{"n": 1.0}'),
        ("out_json", '{"n": 1}', '{"n":  1}'),
        ("out_json", '{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
        ("t_csv", "a,b\n1,2\n", "a,b\n1,3\n"),
        ("t_csv", "a,b\n1,2\n", "b,a\n2,1\n"),
        ("said_txt", "exit code 0\n", "exit code 2\n"),
        ("rings_svg", "<svg/>", "<svg />"),
    ],
)
def test_nothing_else_may(tmp_path, name, old, new):
    found = list(differences(made(tmp_path / "a", **{name: old}), made(tmp_path / "b", **{name: new})))
    assert len(found) == 1 and found[0].startswith(name.replace("_", ".") + ": ")


def test_a_file_that_one_record_lacks_is_named(tmp_path):
    before = made(tmp_path / "a", run01__out_json="{}", run02__out_json="{}")
    after = made(tmp_path / "b", run01__out_json="{}", swept__rows_csv="left out")
    assert list(differences(before, after)) == [f"run02/out.json: only in {before}"]


def test_the_place_of_a_difference_is_shown(tmp_path):
    assert first_difference("a\nb 1\n", "a\nb 2\n") == "line 2: 'b 1' became 'b 2'"
    assert first_difference("a\n", "a\nb\n") == "2 characters became 4"
    far = first_difference("x" * 500 + "1", "x" * 500 + "2")
    assert far.endswith("1' became '" + "x" * 20 + "2'")


def test_only_the_value_of_a_field_goes(tmp_path):
    made(tmp_path, out_json=json.dumps({"version": "0.1", "versions": 2, "seconds": 0.25, "x": ["version"]}))
    assert lasting(tmp_path / "out.json") == '{"version": null, "versions": 2, "seconds": null, "x": ["version"]}'


def test_all_commands_are_run():
    first = {line.split()[0] for line in RUNS.splitlines()}
    assert len(RUNS.splitlines()) >= 40 and first == {"list", "explain", "rtl", "run", "trace", "fabric"}
