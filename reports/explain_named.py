"""What a part, a system, a device, a controller, a GPU or a model is: the values of its file, with their sources."""

import json

from pimloom.arch.document import Document, read_text
from pimloom.arch.names import BELONGS, HERE, heading, list_names
from pimloom.reports.explain import Explanation, Value

NO_VALUES = ("a mapping", "a list")


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
    place = _place(folder)
    document = Document(name, read_text(HERE / place / f"{name}.yaml"))
    return [
        Value(key, shown, document.sources[key].text, f"arch/{place}/{name}.yaml:{document.sources[key].line}")
        for key, shown in document.shown.items() if key not in ("", "description") and shown not in NO_VALUES
    ]  # fmt: skip


def _place(folder: str) -> str:
    return "parts" if folder == "optics" else folder
