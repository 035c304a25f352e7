"""A value that decides how the rest of the file is read: the kind of a system, the type of a unit."""

from collections.abc import Sequence
from functools import reduce
from operator import getitem

from pimloom.arch.document import Document, nearest, steps_of


def choice(document: Document, above: str, key: str, known: Sequence[str]) -> str:
    """The value of a key of the mapping at a place, which is one of `known`. Raises UserError."""
    mapping, said = reduce(getitem, steps_of(above), document.tree), f"one of {', '.join(known)}"
    if not isinstance(mapping, dict):
        document.fail(above, f"expected a mapping with key {key!r} ({said}), got {document.shown[above]}")
    if key not in mapping:
        document.fail(above, f"missing key {key!r} (expected {said})")
    if mapping[key] not in known:
        place = f"{above}.{key}" if above else key
        shown = document.shown[place]
        document.fail(place, f"expected {said}, got {shown}{nearest(shown, known)}")
    return str(mapping[key])
