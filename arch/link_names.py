"""Links by name: their numbers stand only in `arch/fabrics/links.yaml`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pimloom.arch.document import Document, nearest, read_text

NAMED = Path(__file__).parent / "fabrics" / "links.yaml"
PLACES = ("link", "network", "peers", "links.node", "links.network")  # where a file may name one


@cache
def _known() -> Document:
    return Document(str(NAMED), read_text(NAMED))


def named_links() -> Mapping[str, Mapping[str, Any]]:
    """The keys of each link of `arch/fabrics/links.yaml`, as they are written, by its name."""
    tree: Mapping[str, Mapping[str, Any]] = _known().tree
    return tree


def name_links(document: Document, overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Replace each name of a link in a document, or in an override, by the keys of that link. Returns the other
    overrides. Raises UserError for an unknown name."""
    left, known = dict(overrides), named_links()
    for place in PLACES:
        section, _, key = place.rpartition(".")
        holder = document.tree.get(section) if section and isinstance(document.tree, dict) else document.tree
        if not isinstance(holder, dict) or key not in holder or isinstance(holder[key], dict):
            continue
        if place in left:
            document.override(place, left.pop(place))
        if isinstance(name := holder[key], str):
            if name not in known:
                said = f"unknown link {name!r}{nearest(name, list(known))}; known links: {', '.join(known)}"
                document.fail(place, f"{said}; or write its keys")
            document.include(place, _known(), name)
    return left
