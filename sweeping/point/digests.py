"""Digests of everything that decides the row of a point."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pimloom.arch.digest import hex_digest
from pimloom.sweeping.definition.sweep import SYSTEM, WORKLOAD, Scalar

if TYPE_CHECKING:
    from pimloom.sweeping.point.shared import Base


def key_of(base: "Base", point: Mapping[str, Scalar]) -> str:
    """Digest of all that decides the row of a point, 32 hex digits: equal keys, equal rows."""
    return value_digest((digest_of(base, point), sorted(point.items())))


def digest_of(base: "Base", point: Mapping[str, Scalar]) -> str:
    """Digest of what a point shares with others: the base, and what stands behind the names that the point gives.

    Only the axes in `Base.named` matter.
    """
    if base.systems:
        return digest_of(*base.of(point)) if point.get(SYSTEM) in base.systems else ""
    names = tuple(point.get(place) for place in base.named)
    if (found := base.digests.get(names)) is None:
        behind = _behind(base, dict(zip(base.named, names, strict=True)))
        found = base.digests[names] = value_digest((base.head, behind))
    return found


def _behind(base: "Base", point: Mapping[str, Any]) -> list[Any]:
    """Digests of the models, parts and requests that a point comes to, and what its linked axes set."""
    behind: list[Any] = []
    open_places = dict.fromkeys(sorted(base.parts_at.keys() - point.keys()))
    for place, value in point.items():
        if place not in base.linked:
            behind.append(base.choices[place.removeprefix(WORKLOAD)].get(str(value)))
            continue
        sets = base.linked[place].by_value.get(value)  # None: of a row whose value the axis no longer has
        behind.append(sets and sorted(sets.items()))
        for at, part in sorted((sets or {}).items()):
            if at in open_places:
                del open_places[at]
                behind.append(base.choices[at].get(part))
    for place in open_places:
        behind += base.choices[place].values()
    for name in ("model", "requests", "trace"):
        if name in base.workload and name in base.choices:
            behind += base.choices[name].values()
    return behind


def value_digest(value: Any) -> str:
    """32 hex digits of a value; no digest depends on the order of a mapping."""
    return hex_digest(msgspec.json.encode(value, order="sorted"))
