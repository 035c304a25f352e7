"""Where the machine code of kernels lies: beside this file in a wheel, else in the cache, where it is made once.

A file's name tells the kernel, and by a digest the kinds of its arguments and the sources that it is made from. Its
last bytes are a digest of its name and code, in the cache with a key that is the user's. A file is opened once; only
if the digest is right, what was opened is loaded.
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
from typing import Any, NamedTuple

from pimloom.arch.cache import cache_folder
from pimloom.arch.error import UserError
from pimloom.cycle_sim.compiled.arguments import RESULTS
from pimloom.cycle_sim.compiled.sealed import AS_IT_IS, open_sealed, own_key, remove_sealed, write_sealed

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
OPENED = "/proc/self/fd"
Machine = Callable[[list[int], object], Callable[[], Any]]  # words, and what must live as long as the call
_silent = list[bool]()
_watched = list[Callable[[], None]]()


def machine(name: str, kinds: tuple[str, ...]) -> Machine:
    """The machine code of a kernel for these kinds of arguments, which is made if there is none."""
    file = place(name, kinds)
    loaded = _load(file)
    if loaded is None:
        for before in _watched[::2]:
            before()
        try:
            make(file, name, kinds)
        finally:
            for after in _watched[1::2]:
                after()
        loaded = _load(file)
    if loaded is None:
        raise UserError(f"{file} is not what was written there; set PIMLOOM_CACHE to another folder")
    return _called(loaded, name)


def watch(before: Callable[[], None], after: Callable[[], None]) -> None:
    """From now on, `before` is called before a kernel is compiled, and `after` when it is."""
    _watched.extend((before, after))


def make(file: Path, name: str, kinds: Sequence[str]) -> None:
    """Compile a kernel in a process of its own; what another process is at is waited for. Raises UserError if it cannot
    be kept."""
    if LISTED_ONLY:
        raise RuntimeError(f"{LIST} lacks {json.dumps([name, *kinds])}")
    try:
        with _alone(Path(f"{file}.lock")):
            if not is_whole(file):
                damaged = os.path.lexists(file)
                remove_sealed(file)
                _compile(file, name, kinds, damaged)
    except OSError as error:
        where = f"cannot keep compiled kernels in {file.parent}"
        raise UserError(f"{where}: {error.strerror}; set PIMLOOM_CACHE to a folder") from None


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Inside, no other process holds this lock; its file goes behind."""
    if lock.is_symlink() or lock.is_dir():
        remove_sealed(lock)
    held = os.open(lock, AS_IT_IS | os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(held)


def _compile(file: Path, name: str, kinds: Sequence[str], damaged: bool) -> None:
    if damaged or not _silent:
        seconds = next((s for other, s, *rest in listed() if [other, *rest] == [name, *kinds]), None)
        long = "" if seconds is None else f", about {seconds} s"
        why = " again, as its machine code in the cache is damaged" if damaged else " once"
        print(f"pimloom: note: compiling {name.removeprefix('pimloom.')}{why}{long}", file=sys.stderr)
    from tempfile import TemporaryDirectory  # seldom, as all that is compiled

    with TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder, "kernel")
        command = [sys.executable, "-P", "-m", MAKER, str(made), name, *kinds]
        plain = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
        ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=plain)
        if not ran.returncode:
            write_sealed(file, made.read_bytes(), own_key(file.parent))
            return
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # told by Python, or by the linker
        if os.strerror(number) in ran.stderr:
            raise OSError(number, os.strerror(number))
    raise RuntimeError(f"{name} does not compile:\n{ran.stderr}")


def read_code(file: Path) -> bytes | None:
    """The machine code in a file; None if there is none, or it is not what was written."""
    found = _opened(file)
    if found is None:
        return None
    os.close(found[0])
    return found[1]


def _opened(file: Path) -> tuple[int, bytes] | None:
    return open_sealed(file, lambda: b"" if file.parent == MADE else own_key(file.parent))


def is_whole(file: Path) -> bool:
    """Whether the file is there and as it was written: a damaged one would end the process."""
    return read_code(file) is not None


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
    return cache_folder("kernels")


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
    """The function of a library; of object code, where there was no linker, by numba's own loader; None: see
    `read_code`. Raises UserError."""
    found = _opened(file)
    if found is None:
        return None
    descriptor, code = found
    if code[16:17] == RELOCATABLE:
        os.close(descriptor)
        return _load_object(code)
    own = f"{OPENED}/{descriptor}"  # stays open: the system takes one name for one library
    try:
        return ctypes.CDLL(own if os.path.exists(own) else str(file)).kernel
    except OSError as error:
        raise UserError(f"{file} cannot be loaded: {error}; set PIMLOOM_CACHE to another folder") from None


@cache
def _load_object(code: bytes) -> Any:
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
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
    return sha256(" ".join(["sealed", _stamp(name.partition(":")[0]), *kinds]).encode()).hexdigest()[:16]
