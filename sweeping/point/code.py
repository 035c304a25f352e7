"""A digest of the code and data that decide a result, so that a changed model never reuses old rows."""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

ROOMS = (
    "arch", "cycle_sim", "energy", "mappers", "sweeping.point", "systems.devices", "systems.reference",
    "systems.serving", "workload",
)  # fmt: skip
ALONE = {
    "sweeping.definition": ("sweep.py",),
    "systems": ("asked.py", "interpolation.py", "npu_rules.py", "settings.py", "viewed.py"),
}
KINDS = (".py", ".yaml", ".json")


@cache
def code_digest() -> str:
    """Digest of all code, numbers and models that a simulation enters, 16 hex digits; drawing them is left out."""
    found = hashlib.blake2b(digest_size=8)
    for name, path in deciding():
        data = path.read_bytes()
        found.update(f"{name} {len(data)}\n".encode())
        found.update(data)
    return found.hexdigest()


def deciding() -> Iterator[tuple[str, Path]]:
    """The files that decide a result, and their names below the package, in order."""
    for room in ROOMS:
        folder = Path(next(iter(import_module(f"pimloom.{room}").__path__)))
        for path in sorted(p for p in folder.rglob("*") if p.suffix in KINDS):
            yield f"{room} {path.relative_to(folder).as_posix()}", path
    for room, names in ALONE.items():
        folder = Path(next(iter(import_module(f"pimloom.{room}").__path__)))
        yield from ((f"{room} {name}", folder / name) for name in names)
