"""Digests of what decides a result."""

import hashlib
from typing import Any

import msgspec
from msgspec.structs import asdict

from pimloom.arch.part import Part


def digest(*values: Any) -> str:
    """SHA-256 of values (Structs, numbers, texts), 16 hex digits; equal values, equal digest."""
    text = msgspec.json.encode(values, enc_hook=str, order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def decisive(part: Part) -> dict[str, Any]:
    """All of a part but its description, times as the clocks that they come to."""
    found = asdict(part) | {"description": "", "timing": {name: part.cycles(name) for name in part.timing}}
    if not part.one_bus:
        del found["one_bus"]  # a part that does not say so is what it was before one could
    return found
