"""Digests of what decides a result."""

import hashlib
from fractions import Fraction
from typing import Any

import msgspec
from msgspec.structs import asdict

from pimloom.arch.part import Part


def digest(*values: Any) -> str:
    """SHA-256 of values (Structs, numbers, texts), 16 hex digits; equal values, equal digest."""
    text = msgspec.json.encode(values, enc_hook=str, order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def hex_digest(data: bytes) -> str:
    """BLAKE2b of bytes, 32 hex digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def plain(asked: Any) -> Any:
    """Options as JSON values, in which equal options are equal: whole numbers are always integers.

    >>> plain({"link": (400.0, 0.5), "tp": 2})
    {'link': [400, 0.5], 'tp': 2}
    """
    if asked is None or isinstance(asked, bool | int | str):
        return asked
    if isinstance(asked, float):
        return int(asked) if asked.is_integer() else float(asked)
    if isinstance(asked, Fraction):
        return str(asked)
    if isinstance(asked, dict):
        return {str(name): plain(value) for name, value in asked.items()}
    if isinstance(asked, list | tuple):
        return list(asked) if set(map(type, asked)) <= {int} else [plain(value) for value in asked]
    return plain(msgspec.to_builtins(asked))


def decisive(part: Part) -> dict[str, Any]:
    """All of a part but its description, times as the clocks that they come to."""
    found = asdict(part) | {"description": "", "timing": {name: part.cycles(name) for name in part.timing}}
    if not part.one_bus:
        del found["one_bus"]  # a part that does not say so is what it was before one could
    return found
