"""Texts that were composed once: what is kept of them is what composing them gives, and nothing depends on its being
there."""

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch import document, files, kept, yaml_text
from pimloom.arch.cache import cache_folder
from pimloom.arch.error import UserError
from pimloom.arch.kept import Composed, composed

OWN = sorted(str(path) for path in kept.HERE.rglob("*.yaml"))
PART = next(path for path in OWN if path.endswith("ddr4_3200.yaml"))


def typed(tree: Any) -> Any:
    """The tree with the type of every value, since 1 == 1.0 == True."""
    if isinstance(tree, dict):
        return [(key, typed(value)) for key, value in tree.items()]
    return list(map(typed, tree)) if isinstance(tree, list) else (type(tree), repr(tree))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIMLOOM_CACHE", str(tmp_path))
    return tmp_path / "texts"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are composed and not found."""
    real, found = yaml_text.compose, list[str]()

    def noted(file: str, *rest: Any) -> Composed:
        found.append(file)
        return real(file, *rest)

    monkeypatch.setattr(yaml_text, "compose", noted)
    return found


def test_all_files_of_the_house_are_found_as_they_were_composed(cache, made):
    some = OWN[::7]  # of all, the others are alike
    texts = {file: Path(file).read_text() for file in some}
    first = {file: composed(file, text) for file, text in texts.items()}
    assert made == some and len(list(cache.iterdir())) == len(set(texts.values()))
    for file, text in texts.items():
        again = composed(file, text)
        assert typed(again.tree) == typed(first[file].tree) and again.notes == first[file].notes
    assert made == some


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(1 - 2**63, 2**63 - 1)
    | st.text()
    | st.floats(allow_nan=False).filter(lambda x: abs(x) != float("inf"))
)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=6
)


@settings(max_examples=25)
@given(TREES)
def test_what_yaml_can_hold_is_kept_as_it_is(tree):
    read = msgspec.json.decode(msgspec.json.encode(Composed(tree, [("a", 1, "", "x")])), type=Composed)
    assert typed(read.tree) == typed(tree) and read.notes == [("a", 1, "", "x")]


def test_a_user_s_file_and_a_text_that_is_refused_are_not_kept(cache, made, tmp_path):
    composed(str(tmp_path / "own.yaml"), "a: 1")
    composed(PART, "a: 1", "", ("a",))
    with pytest.raises(UserError, match="duplicate key"):
        composed(PART, "a: 1\na: 2")
    assert len(made) == 3 and not list(cache.iterdir())


def test_another_text_or_another_composer_is_another_place(cache, monkeypatch, tmp_path):
    composed(PART, "a: 1")
    composed(PART, "a: 2")
    other = tmp_path / "yaml_text.py"
    other.write_text("another")
    monkeypatch.setattr(kept, "MAKERS", (*kept.MAKERS[:-1], other))
    kept._makers.cache_clear()
    composed(PART, "a: 1")
    kept._makers.cache_clear()
    assert len(list(cache.iterdir())) == 3


@pytest.mark.parametrize("broken", [b"", b'[{"a":1}', b'[{"a":1},[["a","1","",""]]]', b"\xff", b'["\xff",[]]'])
def test_a_broken_file_is_as_none(cache, made, broken):
    composed(PART, "a: 1")
    (file,) = cache.iterdir()
    file.write_bytes(broken)
    assert composed(PART, "a: 1").tree == {"a": 1} and len(made) == 2
    assert composed(PART, "a: 1").tree == {"a": 1} and len(made) == 2  # it was kept anew


def test_where_there_is_no_folder_all_is_composed(monkeypatch, made):
    monkeypatch.setattr(kept, "private_folder", lambda room: None)
    assert [composed(PART, "a: 1").tree for _ in range(2)] == [{"a": 1}] * 2 and len(made) == 2


def test_where_nothing_can_be_kept_all_is_composed(monkeypatch, made, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PIMLOOM_CACHE", str(tmp_path / "file" / "below"))
    assert [composed(PART, "a: 1").tree for _ in range(2)] == [{"a": 1}] * 2 and len(made) == 2


def test_without_a_home_it_is_said_what_to_set(monkeypatch, capsys):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    for variable in ("PIMLOOM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, "")
    made = cache_folder("kernels")
    assert "there is no home folder; compiled code is cached in " in capsys.readouterr().err and made.is_dir()


def test_what_cannot_be_kept_is_made_each_time(cache, made, monkeypatch):
    """The folder is there, and takes nothing more."""
    composed(PART, "a: 1")

    def full(path: Path, *_: object, **__: object) -> None:
        raise UserError(f"cannot write {path}: no space left on device")

    monkeypatch.setattr(files, "write_atomic", full)
    assert [composed(PART, "a: 2").tree for _ in range(2)] == [{"a": 2}] * 2 and len(made) == 3


def test_what_is_old_goes_when_something_is_kept(cache):
    composed(PART, "a: 1")
    (old,) = cache.iterdir()
    long_ago = time.time() - kept.OLD_S - 60
    os.utime(old, (long_ago, long_ago))
    composed(PART, "a: 2")
    assert old not in list(cache.iterdir()) and len(list(cache.iterdir())) == 1


@given(st.text("aZ09_.", min_size=1, max_size=8))
def test_a_word_that_is_set_is_what_yaml_makes_of_it(text):
    """Without YAML: what users set most."""
    try:
        whole = yaml_text.compose(document.SET, text, "a.b")
    except UserError as error:
        with pytest.raises(UserError) as raised:
            composed(document.SET, text, "a.b")
        assert str(raised.value) == str(error)
        return
    found = composed(document.SET, text, "a.b")
    assert (typed(found.tree), found.notes) == (typed(whole.tree), whole.notes)
