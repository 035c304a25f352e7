"""A digest of the code and data that decide a result, so that a changed model never reuses old rows."""

import hashlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECIDING = ("arch", "cycle_sim", "mappers", "energy", "reports", "pimloom")
KINDS = (".py", ".yaml", ".json")


@cache
def code_digest() -> str:
    """Digest of all code, numbers and models of the rooms that a simulation enters, 16 hex digits."""
    found = hashlib.blake2b(digest_size=8)
    for room in DECIDING:
        for path in sorted(p for p in (ROOT / room).rglob("*") if p.suffix in KINDS):
            data = path.read_bytes()
            found.update(f"{path.relative_to(ROOT).as_posix()} {len(data)}\n".encode())
            found.update(data)
    return found.hexdigest()
