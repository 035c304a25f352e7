"""Names of parts and systems, and the files behind them."""

import os
import re
from functools import lru_cache
from pathlib import Path

from pimloom.arch.document import nearest, read_text
from pimloom.arch.error import UserError
from pimloom.arch.kept import top_level

HERE = Path(__file__).parent
OPTICAL = re.compile(r"^kind: optics\b", re.MULTILINE)

BELONGS = {  # folder -> what its files are, and what takes them
    "systems": "a system, for `pimloom run {name}`",
    "parts": "a memory, for `pimloom trace {name}` and `--set dram.part={name}`",
    "optics": "an optical part, for `pimloom fabric switch --part {name}`",
    "gpus": "a GPU to train on, for `pimloom fabric mfu --gpu {name}`",
    "aim_devices": "an AiM device, for `pimloom aim --config {name}`",
    "controllers": "a memory controller, for `pimloom trace --controller {name}`",
    "models": "a model, for `--model {name}`",
}


def list_names(folder: str) -> list[str]:
    """Names of the files in `arch/FOLDER`; of `parts` the memories, of `optics` the optical parts among them."""
    if folder not in ("parts", "optics"):
        ending = ".json" if folder == "models" else ".yaml"
        return sorted(name.removesuffix(ending) for name in os.listdir(HERE / folder) if name.endswith(ending))
    with os.scandir(HERE / "parts") as entries:
        every = sorted((entry.name, entry.path, entry.stat()) for entry in entries if entry.name.endswith(".yaml"))
    chosen = [name for name, path, its in every if _optical(path, its.st_mtime_ns, its.st_size) == (folder == "optics")]
    return [name.removesuffix(".yaml") for name in chosen]


@lru_cache(maxsize=1024)
def _optical(path: str, mtime_ns: int, size: int) -> bool:
    """Whether a file, in the state of these two, is an optical part: each look-up of a name asks it of all files."""
    data = Path(path).read_bytes()
    return b"kind: optics" in data and bool(OPTICAL.search(data.decode()))


def _has(folder: str, name: str) -> bool:
    """Whether a name is one of `list_names`; of parts no other file than its own is asked whether it is optical."""
    if folder not in ("parts", "optics"):
        return name in list_names(folder)
    if f"{name}.yaml" not in os.listdir(HERE / "parts"):
        return False
    path = HERE / "parts" / f"{name}.yaml"
    its = path.stat()
    return _optical(str(path), its.st_mtime_ns, its.st_size) == (folder == "optics")


def heading(folder: str, name: str) -> dict[str, str]:
    """The values of one line that stand at the top level of a file in `arch/FOLDER`, as written; for a list of all
    files, as nothing else is looked at and nothing checked. Raises ValueError if it is not YAML."""
    return top_level(read_text(HERE / folder / f"{name}.yaml"))


def find(folder: str, name: str) -> Path:
    """The file of a name in `arch/FOLDER`, or a path to a YAML file of the user's own; else UserError."""
    kind = folder.removesuffix("s")
    if _has(folder, name):
        return HERE / folder / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    known = list_names(folder)
    if Path(name).is_file():
        what = "`kind` and the keys" if folder == "systems" else "the keys"
        said = f"a {kind.replace('_', ' ')} is a file that ends in .yaml and has {what} of one in arch/{folder}"
        raise UserError(f"{name}: {said}; known {folder}: {', '.join(known)}")
    where = elsewhere(name) or nearest(name, known)
    raise UserError(f"unknown {kind} {name!r}{where}; known {folder}: {', '.join(known)}")


def elsewhere(name: str) -> str:
    """What a name is that was looked for among other things, and where it belongs; else nothing."""
    for folder, belongs in BELONGS.items():
        if _has(folder, name):
            return f": it is {belongs.format(name=name)}"
    return ""


def is_optics(name: str) -> bool:
    """Whether this name, or this path to a YAML file, is that of an optical part."""
    if name.endswith((".yaml", ".yml")) and Path(name).is_file():
        return bool(OPTICAL.search(read_text(Path(name))))
    return _has("optics", name)


def find_optics(name: str) -> Path:
    """The file of an optical part by name, or a path; else UserError."""
    if _has("optics", name):
        return HERE / "parts" / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    known = list_names("optics")
    raise UserError(f"unknown optical part {name!r}{nearest(name, known)}; known optical parts: {', '.join(known)}")
