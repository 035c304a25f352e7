"""Names of parts and systems, and the files behind them."""

import re
from pathlib import Path

from pimloom.arch.document import nearest, read_text
from pimloom.arch.error import UserError

HERE = Path(__file__).parent
OPTICAL = re.compile(r"^kind: optics\b", re.MULTILINE)


def list_names(folder: str) -> list[str]:
    """Names of the YAML files in `arch/FOLDER`; of `parts` the memories, of `optics` the optical parts among them."""
    if folder not in ("parts", "optics"):
        return sorted(p.stem for p in (HERE / folder).glob("*.yaml"))
    every = sorted((HERE / "parts").glob("*.yaml"))
    return [p.stem for p in every if bool(OPTICAL.search(p.read_text())) == (folder == "optics")]


def find(folder: str, name: str) -> Path:
    """The file of a name in `arch/FOLDER`, or a path to a YAML file of the user's own; else UserError."""
    kind = folder.removesuffix("s")
    known = list_names(folder)
    if name in known:
        return HERE / folder / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    raise UserError(f"unknown {kind} {name!r}{nearest(name, known)}; known {folder}: {', '.join(known)}")


def is_optics(name: str) -> bool:
    """Whether this name, or this path to a YAML file, is that of an optical part."""
    if name.endswith((".yaml", ".yml")) and Path(name).is_file():
        return bool(OPTICAL.search(read_text(Path(name))))
    return name in list_names("optics")


def find_optics(name: str) -> Path:
    """The file of an optical part by name, or a path; else UserError."""
    known = list_names("optics")
    if name in known:
        return HERE / "parts" / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    raise UserError(f"unknown optical part {name!r}{nearest(name, known)}; known optical parts: {', '.join(known)}")
