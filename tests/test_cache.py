"""The folder that machine code is loaded from: nobody else may write it, and what is in it is what was written."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pimloom.arch.cache import cache_folder, private_folder
from pimloom.arch.error import UserError
from pimloom.cycle_sim.compiled import library
from pimloom.cycle_sim.compiled.sealed import own_key, write_sealed
from tests.test_compiled import DECODE, ROOT, SMALL, run

NOBODY = 65534
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
DECODED = "[[2, 0, 0, 5]]\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of ours, with nothing in the environment."""
    for variable in ("PIMLOOM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir(mode=0o755)
    return tmp_path / "home"


def given(folder: Path) -> Path:
    os.chown(folder, NOBODY, -1)
    return folder


def opened(folder: Path, mode: int) -> Path:
    folder.chmod(mode)
    return folder


UNSAFE: dict[str, Callable[[Path], Path]] = {
    "mode 777": lambda folder: opened(folder, 0o777),
    "mode 1777": lambda folder: opened(folder, 0o1777),
    "mode 775": lambda folder: opened(folder, 0o775),
    "belongs to another user": given,
}


@pytest.mark.parametrize("why", [pytest.param(why, marks=ROOT_ONLY if "user" in why else ()) for why in UNSAFE])
@pytest.mark.parametrize("place", ["", "kernels", "above"])
def test_a_folder_that_others_can_write_is_not_used(home, tmp_path, monkeypatch, capsys, why, place):
    folder = tmp_path / "up" / "cache"
    (folder / "kernels").mkdir(parents=True)
    bad = folder.parent if place == "above" else folder / place
    UNSAFE[why](bad)
    monkeypatch.setenv("PIMLOOM_CACHE", str(folder))
    if (place, why) in {("above", "mode 1777"), ("above", "mode 775")}:  # as /tmp; the group has no other member
        assert cache_folder("kernels") == folder / "kernels"
        return
    assert private_folder("kernels") == home / ".cache" / "pimloom" / "kernels" and not capsys.readouterr().err
    assert cache_folder("kernels") == home / ".cache" / "pimloom" / "kernels"
    said = capsys.readouterr().err
    assert str(bad) in said and why in said and said.count("\n") == 1 and "set PIMLOOM_CACHE" in said
    assert cache_folder("kernels").parent == Path(os.environ["PIMLOOM_CACHE"]) and not capsys.readouterr().err


@pytest.mark.parametrize("variable", ["PIMLOOM_CACHE", "XDG_CACHE_HOME", "HOME"])
def test_relative_paths_are_ignored(home, tmp_path, monkeypatch, capsys, variable):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, ".")
    found = cache_folder("kernels")
    assert tmp_path not in (found, *found.parents) or found == home / ".cache" / "pimloom" / "kernels"
    assert found.stat().st_mode & 0o777 == 0o700 and "is a relative path" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_folders_are_made_private_and_those_of_ours_become_it(home):
    before = os.umask(0)
    try:
        made = cache_folder("kernels")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (made, *made.parents[:2])] == [0o700] * 3
    made.chmod(0o755)
    assert cache_folder("kernels").stat().st_mode & 0o777 == 0o700


@ROOT_ONLY
def test_a_link_is_followed_where_nobody_else_could_have_made_it(home, tmp_path, monkeypatch, capsys):
    for name in ("there", "open"):
        (tmp_path / name / "cache").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "there")
    monkeypatch.setenv("PIMLOOM_CACHE", str(tmp_path / "link" / "cache"))
    assert cache_folder("kernels") == tmp_path / "link" / "cache" / "kernels"
    os.lchown(tmp_path / "link", NOBODY, -1)
    assert private_folder("kernels") == home / ".cache" / "pimloom" / "kernels"
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path / "open")
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("PIMLOOM_CACHE", str(tmp_path / "first" / "cache"))
    assert cache_folder("kernels") == home / ".cache" / "pimloom" / "kernels"
    assert f"others can write to {tmp_path / 'open'} (mode 777)" in capsys.readouterr().err
    (tmp_path / "round").symlink_to("round")
    monkeypatch.setenv("PIMLOOM_CACHE", str(tmp_path / "round" / "cache"))
    with pytest.raises(UserError, match="cannot keep results in .*round"):
        cache_folder("kernels")


def test_where_no_folder_is_safe_it_is_one_of_this_process(home, tmp_path):
    """It ends with the process; processes that it starts use the same one."""
    code = (
        "import os, subprocess, sys\nfrom pimloom.arch.cache import cache_folder\nfound = cache_folder('kernels')\n"
        "child = 'from pimloom.arch.cache import cache_folder; print(cache_folder(\"kernels\"))'\n"
        "print(found, oct(found.stat().st_mode), flush=True)\nsubprocess.run([sys.executable, '-c', child], check=True)"
    )
    home.chmod(0o777)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    found, mode, of_child = ran.stdout.split()
    assert (of_child, mode) == (found, "0o40700") and not Path(found).exists()
    assert ran.stderr == (
        f"pimloom: note: others can write to {home} (mode 777); compiled code is cached in {Path(found).parent} until "
        "this command ends; set PIMLOOM_CACHE to a private folder\n"
    )


@pytest.fixture
def kept(tmp_path, monkeypatch) -> Path:
    """The machine code of a kernel in a cache of its own."""
    monkeypatch.setenv("PIMLOOM_CACHE", str(tmp_path))
    name, *kinds = DECODE
    monkeypatch.setattr(library, "LISTED_ONLY", False)
    file = library.place(name, kinds)
    code = library.read_code(WHOLE.parent / file.name)
    assert code
    write_sealed(file, code, own_key(file.parent))
    return file


WHOLE = library.place(DECODE[0], DECODE[1:])


def flip(file: Path, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    file.write_bytes(data)


def folder(file: Path) -> None:
    file.unlink()
    (file / "below").mkdir(parents=True)


def link(file: Path) -> None:
    file.unlink()
    file.symlink_to(WHOLE)


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def key(file: Path) -> None:
    (file.parent / "key").write_bytes(b"short")


def unsealed(file: Path) -> None:
    file.write_bytes(library.read_code(file) or b"")


def of_a_wheel(file: Path) -> None:
    write_sealed(file, library.read_code(file) or b"", b"")


def another(file: Path) -> None:
    """Another kernel's, whole, under this one's name."""
    other = file.with_name("other")
    write_sealed(other, library.read_code(file) or b"", own_key(file.parent))
    other.replace(file)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "zeros": lambda file: file.write_bytes(bytes(len(file.read_bytes()))),
    "nothing": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    **{f"bit {bit}": partial(flip, bit=bit) for bit in (3, 128, 40_001, 100_007, -1)},
    **{each.__name__: each for each in (unsealed, of_a_wheel, folder, link, pipe, key, another)},
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_machine_code_is_made_again_and_it_is_said(kept, monkeypatch, capsys, how):
    name, *kinds = DECODE
    whole, made = library.read_code(kept), list[list[str]]()

    class Ran:
        returncode = 0

    def compiled(command, **_):
        Path(command[4]).write_bytes(whole or b"")
        made.append(command)
        return Ran

    monkeypatch.setattr("pimloom.cycle_sim.compiled.library.subprocess.run", compiled)
    DAMAGE[how](kept)
    for _ in range(2):
        library.machine(name, tuple(kinds))
    said = "pimloom: note: compiling cycle_sim.memory.addresses:decode again, as its machine code in the cache is dam"
    assert capsys.readouterr().err.startswith(said) and len(made) == 1 and library.read_code(kept) == whole
    assert {path.name for path in kept.parent.iterdir()} == {"key", kept.name}


def test_a_lock_is_no_way_to_another_file(kept, tmp_path, monkeypatch):
    """Its file was emptied."""
    (tmp_path / "mine").write_text("kept")
    kept.unlink()
    Path(f"{kept}.lock").symlink_to(tmp_path / "mine")
    monkeypatch.setattr(library, "_compile", lambda file, *about: None)
    library.make(kept, DECODE[0], DECODE[1:])
    assert (tmp_path / "mine").read_text() == "kept" and not os.path.lexists(f"{kept}.lock")


def test_what_was_read_is_loaded_whatever_lies_there_then(kept, monkeypatch):
    opened = library._opened

    def swapped(file):
        found = opened(file)
        file.unlink()
        file.write_bytes(b"\x7fELF" + bytes(200))
        return found

    monkeypatch.setattr(library, "_opened", swapped)
    assert library._load(kept) is not None


@pytest.mark.slow
def test_a_damaged_kernel_ends_no_command(tmp_path):
    own = {"PIMLOOM_CACHE": str(tmp_path), "PIMLOOM_KERNELS": ""}
    said = list[str]()
    for _ in range(3):
        ran = run(SMALL, **own)
        assert (ran.returncode, ran.stdout) == (0, DECODED)
        said.append(ran.stderr)
        if len(said) == 1:
            (made,) = (tmp_path / "kernels").glob("*decode*")
            made.write_bytes(bytes(len(made.read_bytes())))
    assert ["once" in said[0], "again" in said[1], said[2]] == [True, True, ""]
