"""The package compiled once, for the many processes of a run, where Python itself is told to keep no bytecode.

What is kept holds a digest of its source, which Python compares: an edit is never missed.
"""

import sys
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from py_compile import PycInvalidationMode, compile

ROOT = Path(__file__).resolve().parent.parent
CHECKED = (0b11).to_bytes(4, "little")  # flags: by a digest, which is looked at


def compile_sources() -> None:
    """Compile what has changed."""
    if not sys.dont_write_bytecode:  # Python keeps it
        return
    rooms = [path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"]
    for path in (path for room in rooms for path in room.rglob("*.py")):
        made, header = Path(cache_from_source(path)), MAGIC_NUMBER + CHECKED + source_hash(path.read_bytes())
        with suppress(OSError):  # a folder that cannot be written to
            if not made.exists() or made.read_bytes()[:16] != header:
                compile(str(path), str(made), invalidation_mode=PycInvalidationMode.CHECKED_HASH)
