"""C++ that is the same for all models, compiled once: what Verilator's makefiles call as $OBJCACHE before a compiler.

    python object_cache.py FOLDER LEVEL c++ OPTIONS -c -o verilated.o .../verilator/include/verilated.cpp

An object is kept in FOLDER by what it is made of: what the preprocessor makes of its source, the options that are not
for it, and the compiler. That is done for Verilator's own sources. The header with which models and Verilator's
sources begin, half of a small model's time, is compiled once for equal options. LEVEL: -O0 in the place
of the makefiles' own levels, for models that run for less time than they are optimised; or - for those.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path

FOR_THE_PREPROCESSOR = ("-I", "-D", "-M")  # what they decide is in what it makes
HEADER = '#include "verilated.h"\n'


def ours(command: list[str]) -> bool:
    """Whether a command compiles one of Verilator's own sources."""
    return "-c" in command and "-o" in command and _of_verilator(Path(command[-1]))


def kept(folder: Path, command: list[str]) -> Path | None:
    """Where the object of a command of ours is kept; None where its source cannot be read."""
    text = subprocess.run([*_options(command), "-E", "-P", command[-1]], capture_output=True, check=False)
    flags = [word for word in _options(command)[1:] if not word.startswith(FOR_THE_PREPROCESSOR)]
    return None if text.returncode else folder / f"{_digest(command, flags, text.stdout)}.o"


def with_header(folder: Path, command: list[str]) -> list[str]:
    """The command with the header that its source begins with compiled, if it is one of those."""
    source = Path(command[-1])
    begins = _of_verilator(source) or source.name == "Vtop__ALL.cpp"
    if "-c" not in command or "-Os" in command or not begins:  # with -Os too few are made
        return command
    options = [word for word in _options(command) if word != "-I."]
    made = folder / _digest(command, options, b"") / "first.h"
    with _alone(made.parent):
        compiled = made.with_name(f"{made.name}.gch")
        if not compiled.exists():
            made.parent.mkdir(exist_ok=True)
            made.write_text(HEADER)
            fresh = made.with_name("new")
            if subprocess.run([*options, "-x", "c++-header", "-o", str(fresh), str(made)], check=False).returncode:
                return command
            fresh.replace(compiled)
    return [*command[:-1], "-include", str(made), command[-1]]


def _of_verilator(source: Path) -> bool:
    return source.parent.parts[-2:] == ("verilator", "include")


def _options(command: list[str]) -> list[str]:
    """The compiler and what it is told beside source and object."""
    out = command[command.index("-o") + 1]
    return [word for word in command[:-1] if word not in ("-c", "-o", "-MMD", out)]


def _digest(command: list[str], flags: list[str], text: bytes) -> str:
    found = Path(shutil.which(command[0]) or command[0]).resolve()
    return sha256(f"{found} {found.stat().st_mtime_ns} {flags}\n".encode() + text).hexdigest()[:20]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        flock(lock, LOCK_EX)  # one compiles, others wait
        yield


def main(folder: Path, level: str, command: list[str]) -> int:
    if level != "-":
        command = [level if word.startswith("-O") else word for word in command]
    found = kept(folder, command) if ours(command) else None
    if found is None:
        command = with_header(folder, command)
        os.execvp(command[0], command)
    out = command[command.index("-o") + 1]
    with _alone(found):
        if not found.exists():
            if code := subprocess.run(with_header(folder, command), check=False).returncode:
                return code
            fresh = found.with_suffix(".new")
            shutil.copyfile(out, fresh)
            fresh.replace(found)
            return 0
    shutil.copyfile(found, out)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
