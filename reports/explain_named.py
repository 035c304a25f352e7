"""What a part, a system, a device, a controller, a GPU or a model is: the values of its file, with their sources."""

import json

from pimloom.arch.document import Document, read_text
from pimloom.arch.names import BELONGS, HERE, heading, list_names
from pimloom.reports.explain import Explanation, Value

NO_VALUES = ("a mapping", "a list")
INNER = {"device": "duplex_devices", "aim": "aim_devices"}  # keys of a system that name a device in a folder


def explain_named(name: str) -> Explanation | None:
    """The values of its file, key by key, or of its files; None for a name that nothing has."""
    folders = [folder for folder in BELONGS if name in list_names(folder)]
    if not folders:
        return None
    said = [": ".join(filter(None, (BELONGS[f].format(name=name), _about(f, name)))) for f in folders]
    return Explanation(name, "; ".join(said), [value for f in folders for value in _values(f, name)], [])


def _about(folder: str, name: str) -> str:
    return "" if folder == "models" else heading(_place(folder), name).get("description", "")


def _values(folder: str, name: str) -> list[Value]:
    if folder == "models":
        file, plain = f"arch/models/{name}.json", json.loads(read_text(HERE / "models" / f"{name}.json"))
        return [Value(key, str(value), "see arch/models/SOURCES.md", file) for key, value in plain.items()]
    return _of_file(_place(folder), name)


def _of_file(place: str, name: str, below: str = "") -> list[Value]:
    """Of a file, and of a device of its own that a system's file names. below: where these stand."""
    document, found = Document(name, read_text(HERE / place / f"{name}.yaml")), list[Value]()
    for key, shown in document.shown.items():
        if key in ("", "description") or shown in NO_VALUES:
            continue
        source = document.sources[key]
        found.append(Value(f"{below}{key}", shown, source.text, f"arch/{place}/{name}.yaml:{source.line}"))
        if place == "systems" and key in INNER and shown in list_names(INNER[key]):
            found += _of_file(INNER[key], shown, f"{key}.")
    return found


def _place(folder: str) -> str:
    return "parts" if folder == "optics" else folder
