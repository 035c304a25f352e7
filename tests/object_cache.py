"""Verilator's own sources, compiled once for all models: what its makefiles call as $OBJCACHE, before the compiler.

    python object_cache.py FOLDER c++ OPTIONS -c -o verilated.o .../verilator/include/verilated.cpp

An object is kept in FOLDER by what it is made of: all files of the source's folder, the options and the compiler. What
lies elsewhere, as models and benches do, is compiled as if this was not here.
"""

import os
import shutil
import subprocess
import sys
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path


def kept(folder: Path, command: list[str]) -> Path | None:
    """Where the object of a command is kept; None for one that is always run."""
    source = Path(command[-1])
    if "-c" not in command or "-o" not in command or source.parent.parts[-2:] != ("verilator", "include"):
        return None
    compiler = Path(shutil.which(command[0]) or command[0]).resolve()
    made = sha256(f"{compiler} {compiler.stat().st_mtime_ns} {command}".encode())
    for file in sorted(path for path in source.parent.rglob("*") if path.is_file()):
        made.update(f"{file} ".encode() + sha256(file.read_bytes()).digest())
    return folder / f"{made.hexdigest()[:20]}.o"


def main(folder: Path, command: list[str]) -> int:
    found = kept(folder, command)
    if found is None:
        os.execvp(command[0], command)
    out = command[command.index("-o") + 1]
    folder.mkdir(parents=True, exist_ok=True)
    with found.with_suffix(".lock").open("w") as lock:
        flock(lock, LOCK_EX)  # one compiles, others wait
        if not found.exists():
            if code := subprocess.run(command, check=False).returncode:
                return code
            fresh = found.with_suffix(".new")
            shutil.copyfile(out, fresh)
            fresh.replace(found)
            return 0
    shutil.copyfile(found, out)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
