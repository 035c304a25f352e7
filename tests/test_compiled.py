"""Kernels as machine code: what is passed to them, what is compiled ahead, what happens where something is missing."""

import ast
import json
import os
import re
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pimloom.arch.command import STREAM
from pimloom.arch.error import UserError
from pimloom.arch.part_memory import part_memory
from pimloom.arch.policy import load_policy
from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.cycle_sim.compiled import library
from pimloom.cycle_sim.compiled.__main__ import OLD_DAYS, compile_into, make_all, tidy
from pimloom.cycle_sim.compiled.arguments import flatten
from pimloom.cycle_sim.compiled.kernel import Entry, bind
from pimloom.cycle_sim.compiled.sealed import own_key, write_sealed
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.memory.addresses import decode
from pimloom.cycle_sim.memory.simulate import Chunk, simulate
from pimloom.systems.memory.patterns import pattern_chunks

ROOT = Path(__file__).parent.parent
PIECES = np.array([[6, 7, 3, 0], [13, 3, 0, 0]])  # three bits of the column, two of the channel
DECODE = ["pimloom.cycle_sim.memory.addresses:decode", "i8:2", "i8:1", "i8:2"]


class Pair(NamedTuple):
    numbers: np.ndarray
    flag: bool


def test_arguments_are_words_and_kinds():
    numbers = np.arange(6, dtype=np.uint32).reshape(2, 3)
    kinds, words = flatten((Pair(numbers, True), np.int64(-7), 0.5))
    assert kinds == ("tests.test_compiled:Pair", "u4:2", "bool", "end", "int", "float")
    assert words == [numbers.ctypes.data, 2, 3, 1, -7, 0x3FE0000000000000]


@pytest.mark.parametrize("wrong", [np.zeros((3, 2)).T, np.arange(8)[::2], [1], "x", None])
def test_what_no_kernel_takes_is_refused(wrong):
    with pytest.raises(TypeError, match="a kernel takes"):
        flatten((wrong,))


def decoded(addresses: list[int]) -> list[list[int]]:
    found = np.zeros((4, len(addresses)), np.int64)
    decode(PIECES, np.array(addresses), found)
    return found.T.tolist()


def test_a_kernel_does_what_it_says():
    assert decoded([64 * 5 + 8192 * 2 + 17, 0]) == [[2, 0, 0, 5], [0, 0, 0, 0]]


def test_a_bound_call_finds_what_the_arrays_hold_then():
    addresses, found = np.array([0]), np.zeros((4, 1), np.int64)
    call = bind(decode, PIECES, addresses, found)
    addresses[0] = 64 * 3
    call()
    assert found.ravel().tolist() == [0, 0, 0, 3]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def test_arrays_that_may_only_be_read_are_of_the_same_kind():
    """A kernel is not compiled again for them, as numba would, and reads them where they are."""
    addresses, found = np.array([64 * 5 + 8192 * 2]), np.zeros((4, 1), np.int64)
    assert flatten((read_only(addresses),))[0] == flatten((addresses,))[0]
    decode(read_only(PIECES), read_only(addresses), found)
    assert found.ravel().tolist() == [2, 0, 0, 5]


@pytest.mark.parametrize("controller", ["default", "dramsim3", "ramulator2"])
@pytest.mark.parametrize("channels", [1, 2])
def test_requests_that_may_only_be_read_are_served_and_left_alone(controller, channels):
    memory = part_memory("ddr4_3200", load_part("ddr4_3200").value, load_policy(controller).value, channels=channels)
    (chunk,) = pattern_chunks(memory, "mixed", 200, 1)
    kept = Chunk(*map(read_only, chunk))
    assert repr(simulate(memory, [kept])) == repr(simulate(memory, [chunk]))
    assert all(np.array_equal(*pair) for pair in zip(kept, chunk, strict=True))


def test_a_stream_that_may_only_be_read_is_issued():
    table = compile_table(load_part("gddr6_14000").value)
    stream = np.zeros(3, STREAM)
    stream["cmd"], stream["count"] = [table.cmd(name) for name in ("ACT", "RD", "PRE")], 1
    assert repr(issue(table, [read_only(stream)])) == repr(issue(table, [stream]))


def entries() -> set[str]:
    """Names of all kernels that Python calls."""
    found = set()
    for room in ("cycle_sim", "systems"):
        for path in (ROOT / room).rglob("*.py"):
            if re.search(r"import .*\bentry\b", text := path.read_text()) and "def entry" not in text:
                module = import_module("pimloom." + ".".join(path.relative_to(ROOT).with_suffix("").parts))
                found |= {one.name for one in vars(module).values() if isinstance(one, Entry)}
    return found


def test_all_kernels_are_compiled_ahead():
    listed = library.listed()
    assert {name for name, *_ in listed} == entries() and listed == sorted(listed)
    assert all(library.place(name, kinds).exists() for name, _, *kinds in listed)


def test_only_what_is_digested_decides_a_kernel():
    """A constant that a kernel takes from the rooms outside must be in its digest."""
    for name, *_ in library.listed():
        for path in set(library._sources(name.partition(":")[0])) - set(library.MAKERS):
            for line in ast.walk(ast.parse(path.read_text())):
                if isinstance(line, ast.ImportFrom) and str(line.module).startswith(library.OUTSIDE):
                    module = import_module(str(line.module))
                    values = [getattr(module, each.name, None) for each in line.names]
                    assert line.module in library.CONSTANTS or not any(isinstance(x, int | tuple) for x in values), path


def test_an_edit_of_a_source_or_other_kinds_make_another_file(monkeypatch):
    name, *kinds = DECODE
    file = library.place(name, kinds)
    assert library.place(name, [*kinds, "int"]) != file
    monkeypatch.setattr(library, "_stamp", lambda module: "another")
    assert library.place(name, kinds) != file and library.place(name, kinds).parent == file.parent


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False, cwd=ROOT)


SMALL = "from tests.test_compiled import decoded; print(decoded([64 * 5 + 8192 * 2]))"


def test_without_a_c_compiler_the_code_is_linked_by_numba(tmp_path):
    """The file is then an object, which no loader of the system takes."""
    own = {"PIMLOOM_CACHE": str(tmp_path), "PIMLOOM_KERNELS": "", "PATH": str(tmp_path)}
    for said in ("pimloom: note: compiling cycle_sim.memory.addresses:decode once, about 1 s\n", ""):
        ran = run(SMALL, **own)
        assert (ran.stdout, ran.stderr) == ("[[2, 0, 0, 5]]\n", said)
    (made,) = (tmp_path / "kernels").glob("*decode*")
    assert made.read_bytes()[16] == 1  # ELF: relocatable


def test_what_is_damaged_is_made_again_ahead(tmp_path, monkeypatch):
    name, *kinds = DECODE
    code, made = library.read_code(library.place(name, kinds)), list[Path]()
    assert code

    def compiled(file, *asked):
        made.append(file)
        write_sealed(file, code, own_key(tmp_path))

    monkeypatch.setattr(library, "_compile", compiled)
    monkeypatch.setattr(library, "LISTED_ONLY", False)
    monkeypatch.setattr(library, "listed", lambda: [[name, 1, *kinds]])
    monkeypatch.setattr(library, "kept_in", lambda: tmp_path)
    (file := library.place(name, kinds)).write_bytes(code[:5000])
    assert [make_all(), make_all()] == [1, 0] and made == [file]


def test_a_wheel_takes_nothing_from_the_cache(tmp_path, monkeypatch):
    """All is compiled afresh, and its digests need no key."""
    name, *kinds = DECODE
    code = library.read_code(library.place(name, kinds))
    assert code
    monkeypatch.setattr(library, "LISTED_ONLY", False)
    monkeypatch.setattr(library, "listed", lambda: [[name, 1, *kinds]])
    monkeypatch.setattr(
        library, "_compile", lambda file, *asked: write_sealed(file, b"fresh" + code, own_key(file.parent))
    )
    compile_into(tmp_path)
    (made,) = tmp_path.iterdir()
    assert library.read_code(made) is None
    monkeypatch.setattr(library, "MADE", tmp_path)
    assert library.read_code(made) == b"fresh" + code and library.place(name, kinds) == made


def test_a_wheel_is_not_made_where_others_can_write(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UserError, match="^others can write to .*; set TMPDIR to a private folder"):
        compile_into(tmp_path)


def test_a_wheels_kernel_that_is_cut_off_is_made_in_the_cache(tmp_path, monkeypatch):
    name, *kinds = DECODE
    file = library.place(name, kinds)
    monkeypatch.setattr(library, "MADE", tmp_path)
    write_sealed(tmp_path / file.name, library.read_code(file) or b"", b"")
    assert library.place(name, kinds) == tmp_path / file.name
    (tmp_path / file.name).write_bytes((tmp_path / file.name).read_bytes()[:-1])
    assert library.place(name, kinds) == file


def test_a_file_where_the_kernels_go_is_one_sentence(tmp_path, monkeypatch):
    name, *kinds = DECODE
    (tmp_path / "kernels").touch()
    monkeypatch.setattr(library, "place", lambda *asked: tmp_path / "kernels" / "kernel")
    monkeypatch.setattr(library, "LISTED_ONLY", False)
    with pytest.raises(UserError, match="^cannot keep compiled kernels in .*kernels: Not a directory; set"):
        library.machine(name, tuple(kinds))


@pytest.mark.parametrize("told", ["OSError: [Errno 28] No space left on device", "ld: x.so: No space left on device"])
def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch, told):
    failed = subprocess.CompletedProcess((), 1, "", f"Traceback (most recent call last):\n  ...\n{told}\n")
    monkeypatch.setattr(library, "LISTED_ONLY", False)
    monkeypatch.setattr("pimloom.cycle_sim.compiled.library.subprocess.run", lambda *command, **options: failed)
    said = f"^cannot keep compiled kernels in {tmp_path}: No space left on device; set PIMLOOM_CACHE"
    with library.silent(), pytest.raises(UserError, match=said):
        library.make(tmp_path / "kernel", DECODE[0], DECODE[1:])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_disk_that_is_full_is_one_sentence(tmp_path):
    """As a limit of the sizes of files is, which is here without a file system of its own."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)); "
    own = {"PIMLOOM_CACHE": str(tmp_path), "PIMLOOM_KERNELS": "", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = run(limit + SMALL, **own)
    said = f"cannot keep compiled kernels in {tmp_path / 'kernels'}: File too large; set PIMLOOM_CACHE to a folder"
    assert said in ran.stderr.splitlines()[-1] and len(list((tmp_path / "kernels").iterdir())) <= 1


def test_what_other_versions_made_or_nobody_lists_any_more_goes(tmp_path):
    listed, fresh, old, busy = (tmp_path / name for name in ("listed", "fresh", "old", "fresh.lock"))
    killed = tmp_path / "tmp of a maker that was killed"

    def left(numba):
        for file in (listed, fresh, old, busy):
            file.touch()
        killed.mkdir(exist_ok=True)
        (killed / "kernel.o").touch()
        os.utime(killed, (0, 0))
        os.utime(listed, (0, 0))
        os.utime(old, (0, time.time() - (OLD_DAYS + 1) * 86_400))
        tidy(tmp_path, {listed}, numba)
        return {file.name for file in tmp_path.iterdir()}

    (tmp_path / "key").touch()
    assert left("0.61") == left("0.61") == {"key", "listed", "fresh", "fresh.lock", "numba"}
    assert left("0.62") == {"key", "fresh.lock", "numba"} and (tmp_path / "numba").read_text() == "0.62"


def test_the_same_as_plain_python(tmp_path):
    ran = run(SMALL, PIMLOOM_KERNELS="python", PIMLOOM_CACHE=str(tmp_path))
    assert ran.stdout == "[[2, 0, 0, 5]]\n" and not list(tmp_path.iterdir())


def test_in_tests_nothing_is_compiled_that_is_not_listed(tmp_path):
    ran = run(SMALL, PIMLOOM_KERNELS="listed", PIMLOOM_CACHE=str(tmp_path))
    assert f"kernels.json lacks {json.dumps(DECODE)}" in ran.stderr


def test_what_is_broken_is_said(tmp_path):
    broken = "from pimloom.cycle_sim.compiled import library; library.machine('pimloom.cycle_sim.advance:nothing', ())"
    ran = run(broken, PIMLOOM_KERNELS="", PIMLOOM_CACHE=str(tmp_path))
    assert "pimloom.cycle_sim.advance:nothing does not compile" in ran.stderr
    assert not [path for path in (tmp_path / "kernels").iterdir() if path.name != "key"]


STRICT = {  # files, and which of their tests run on few requests
    "test_controller_oracle.py": ("test_the_engine_is_the_oracle_on_few_requests", 1),
    "test_memory_reference.py": ("test_own_case", 4),
    "test_npu_random.py": ("test_case", 9),
}


def test_the_kernels_agree_without_their_compiler() -> None:
    """As plain Python, with bounds checks and no index below zero; those of the engine in its own tests."""
    files = [f"tests/{file}::{test}" for file, (test, _) in STRICT.items()]
    command = [sys.executable, "-m", "tests.strict", "pytest", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{sum(n for _, n in STRICT.values())} passed" in done.stdout, done.stdout
