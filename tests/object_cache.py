"""C++ that is the same for all models, compiled once: what Verilator's makefiles call as $OBJCACHE before a compiler.

    python object_cache.py FOLDER c++ OPTIONS -c -o verilated.o .../verilator/include/verilated.cpp

An object is kept in FOLDER by what it is made of: what the preprocessor makes of its source, the options that are not
for it, and the compiler. That is done for Verilator's own sources and for the benches; models are compiled as if this
was not here.
"""

import os
import shutil
import subprocess
import sys
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path

BENCHES = Path(__file__).resolve().parent.parent / "rtl" / "flow" / "native" / "cpp"
FOR_THE_PREPROCESSOR = ("-I", "-D", "-M")  # what they decide is in what it makes


def kept(folder: Path, command: list[str]) -> Path | None:
    """Where the object of a command is kept; None for one that is always run."""
    source = Path(command[-1])
    shared = source.parent.parts[-2:] == ("verilator", "include") or (BENCHES / source.name).exists()
    if "-c" not in command or "-o" not in command or not shared:
        return None
    compiler, *options = [word for word in command[:-1] if word not in ("-c", "-o", "-MMD", _out(command))]
    text = subprocess.run([compiler, *options, "-E", "-P", command[-1]], capture_output=True, check=False)
    if text.returncode:  # the compiler says why
        return None
    found = Path(shutil.which(compiler) or compiler).resolve()
    flags = [word for word in options if not word.startswith(FOR_THE_PREPROCESSOR)]
    made = sha256(f"{found} {found.stat().st_mtime_ns} {flags}\n".encode() + text.stdout)
    return folder / f"{made.hexdigest()[:20]}.o"


def _out(command: list[str]) -> str:
    return command[command.index("-o") + 1]


def main(folder: Path, command: list[str]) -> int:
    found = kept(folder, command)
    if found is None:
        os.execvp(command[0], command)
    out = _out(command)
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
