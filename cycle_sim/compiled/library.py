"""Where the machine code of kernels lies: beside this file in a wheel, else in the cache, where it is made once.

A file's name tells the kernel, and by a digest the kinds of its arguments and the sources that it is made from.
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from pimloom.arch.cache import cache_folder
from pimloom.arch.error import UserError
from pimloom.cycle_sim.compiled.arguments import RESULTS

PACKAGE = Path(__file__).parents[2]
MADE = Path(__file__).parent / "made"  # in a wheel
LIST = Path(__file__).with_name("kernels.json")  # what is compiled ahead: names, CPU seconds that it takes, kinds
LISTED_ONLY = os.environ.get("PIMLOOM_KERNELS") == "listed"  # no others are compiled: for tests
IMPORT = re.compile(rb"^from (pimloom\.[\w.]+) import ", re.MULTILINE)
OUTSIDE = ("pimloom.arch.", "pimloom.cycle_sim.compiled")  # what kernels take nothing from, but these:
CONSTANTS = {"pimloom.arch.aim", "pimloom.arch.command"}
MAKER = "pimloom.cycle_sim.compiled.build"
_MAKERS = ("arguments.py", "build.py", "indices.py", "instructions.py", "kernel.py")
MAKERS = tuple(Path(__file__).with_name(name) for name in _MAKERS)
RELOCATABLE = b"\1"  # type of an ELF file
ELF, HEADER = b"\x7fELF", Struct("<4s36xQ10xHH2x")  # 64 bits; its sections stand last: where, size of one, how many
Machine = Callable[[list[int], object], Callable[[], Any]]  # words, and what must live as long as the call
_silent = list[bool]()
_watched = list[Callable[[], None]]()


def machine(name: str, kinds: tuple[str, ...]) -> Machine:
    """The machine code of a kernel for these kinds of arguments, which is made if there is none."""
    found = place(name, kinds)
    if not is_whole(found):
        for before in _watched[::2]:
            before()
        try:
            make(found, name, kinds)
        finally:
            for after in _watched[1::2]:
                after()
    return _called(_load(found), name)


def watch(before: Callable[[], None], after: Callable[[], None]) -> None:
    """From now on, `before` is called before a kernel is compiled, and `after` when it is."""
    _watched.extend((before, after))


def make(file: Path, name: str, kinds: Sequence[str]) -> None:
    """Compile a kernel in a process of its own; what another process is at is waited for. Raises UserError if it cannot
    be kept."""
    if LISTED_ONLY:
        raise RuntimeError(f"{LIST} lacks {json.dumps([name, *kinds])}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{file}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                if not is_whole(file):
                    _compile(file, name, kinds)
            finally:
                Path(lock.name).unlink(missing_ok=True)
    except OSError as error:
        where = f"cannot keep compiled kernels in {file.parent}"
        raise UserError(f"{where}: {error.strerror}; set PIMLOOM_CACHE to a folder") from None


def _compile(file: Path, name: str, kinds: Sequence[str]) -> None:
    if not _silent:
        seconds = next((s for other, s, *rest in listed() if [other, *rest] == [name, *kinds]), None)
        long = "" if seconds is None else f", about {seconds} s"
        print(f"pimloom: note: compiling {name.removeprefix('pimloom.')} once{long}", file=sys.stderr)
    command = [sys.executable, "-P", "-m", MAKER, str(file), name, *kinds]
    plain = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    made = subprocess.run(command, check=False, capture_output=True, text=True, cwd=file.parent, env=plain)
    if made.returncode:
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # told by Python, or by the linker
            if os.strerror(number) in made.stderr:
                raise OSError(number, os.strerror(number))
        raise RuntimeError(f"{name} does not compile:\n{made.stderr}")


def is_whole(file: Path) -> bool:
    """Whether the file is there and not cut off, as a full disk or a copy may leave it: it would end the process."""
    try:
        with file.open("rb") as code:
            head, size = code.read(HEADER.size), os.fstat(code.fileno()).st_size
    except OSError:
        return False
    if len(head) < HEADER.size:
        return False
    magic, sections, each, number = HEADER.unpack(head)
    return magic != ELF or size >= sections + each * number


def listed() -> list[list[Any]]:
    """What is compiled ahead: [name, CPU seconds that it takes, kinds …] of each kernel."""
    found: list[list[Any]] = json.loads(LIST.read_text())
    return found


def place(name: str, kinds: Sequence[str]) -> Path:
    """Where the machine code of a kernel is, or will be."""
    file = name.replace(":", ".") + "-" + _digest(name, kinds)
    return MADE / file if is_whole(MADE / file) else kept_in() / file


def kept_in() -> Path:
    """The folder of the kernels that are made on this machine."""
    return cache_folder() / "kernels"


@contextmanager
def silent() -> Iterator[None]:
    """Inside, in all threads, it is not said that a kernel is compiled."""
    _silent.append(True)
    try:
        yield
    finally:
        _silent.pop()


def _called(code: Any, name: str) -> Machine:
    code.argtypes, code.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int

    def bound(words: list[int], alive: object) -> Callable[[], Any]:
        given, results = (ctypes.c_int64 * len(words))(*words), (ctypes.c_int64 * RESULTS)()

        def call(alive: object = alive) -> Any:
            n = code(given, results)
            if n < 0:
                raise RuntimeError(f"{name} failed")
            return None if n == 0 else results[0] if n == 1 else tuple(results[:n])

        return call

    return bound


def _load(file: Path) -> Any:
    """The function of a library; of object code, where there was no linker, by numba's own loader. Raises UserError."""
    with file.open("rb") as code:
        if code.read(20)[16:17] == RELOCATABLE:
            return _load_object(file)
    try:
        return ctypes.CDLL(str(file)).kernel
    except OSError as error:
        raise UserError(f"{file} cannot be loaded: {error}; set PIMLOOM_CACHE to another folder") from None


@cache
def _load_object(file: Path) -> Any:
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(file.read_bytes()))
    engine.finalize_object()
    _ENGINES.append(engine)
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("kernel"))


_ENGINES = list[Any]()  # keep their code


@cache
def _sources(module: str) -> tuple[Path, ...]:
    """Files that a kernel's module stands on, itself among them; of packages that it names all."""
    found, folders, waiting = set(MAKERS), set[Path](), [_path(module)]
    while waiting:
        path = waiting.pop()
        if path in found or path in folders:
            continue
        if path.is_dir():
            folders.add(path)
            waiting += path.glob("*.py")
        else:
            found.add(path)
            waiting += _read(path).needs
    return tuple(sorted(found))


@cache
def _path(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path if path.is_dir() else path.with_suffix(".py")


class _Read(NamedTuple):
    """Of a file: a digest, and what it stands on."""

    digest: bytes
    needs: list[Path]


@cache
def _read(path: Path) -> _Read:
    text = path.read_bytes()
    named = [each.decode() for each in IMPORT.findall(text)]
    needs = [_path(each) for each in named if not each.startswith(OUTSIDE) or each in CONSTANTS]
    return _Read(sha256(text).digest(), needs)


@cache
def _stamp(module: str) -> str:
    texts = sha256(os.uname().machine.encode())
    for path in _sources(module):
        texts.update(_read(path).digest)
    return texts.hexdigest()


def _digest(name: str, kinds: Sequence[str]) -> str:
    return sha256(" ".join([_stamp(name.partition(":")[0]), *kinds]).encode()).hexdigest()[:16]
