"""Perturb each key of a YAML file, and find the keys whose values a command accepts and ignores."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pimloom.arch.link_names import named_links
from pimloom.arch.load import read_sheet, tree_of
from pimloom.arch.names import find
from tests.command import call

Ask = Callable[[str, str], Any]  # (place, text) -> result with this value, or the error; ('', ''): the file as it is

NAMES = ("description", "kind", "type", "standard", "part", "aim", "device")
INNER = {"aim": "aim_devices", "device": "duplex_devices", "part": "parts"}  # key that names a file: its folder
# Fields of a result that any change of the input changes.
OWN = ("spec_digest", "digest", "base_digest", "point", "version", "wall_s", "requests_per_s", "finished_utc")
REFUSED = re.compile("not read|does not read it|has no stacks|no such key|has no experts|which this system does not")
AGREE = re.compile(  # errors of values that contradict other keys
    r"banks x rows|a burst carries|lanes x element_bits|has one command bus|expected at least tRAS|expected a power of"
    r"|expected true or false|expected more than|takes elements of|needs? stacks|multipliers beside|number of beats"
    r"|memory spaces|set memory=ideal|where (structure|quirks) is|row buffers that are not dual"
    r"|expected 0 with row_buffers none|expected (1|ws) without PIM|expected one of|expected a mapping|expected text"
    r"|a row at a time|cannot run|no unit has it|units? of"
)


def leaves(tree: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted places of a file, with their values."""
    if isinstance(tree, dict):
        for key, below in tree.items():
            yield from leaves(below, f"{place}.{key}" if place else key)
    else:
        yield place, tree


def places_in(folder: str, name: str) -> dict[str, Any]:
    """The places that a user can set: those of a file, of the files that it names, and of its links."""
    path = find(folder, name)
    found = dict(leaves(tree_of(read_sheet(path))))
    for place, value in list(found.items()):
        key = place.rpartition(".")[2]
        if key in INNER and isinstance(value, str):
            below = {"aim": f"{place}.", "device": f"{place}."}.get(key, place.removesuffix("part"))
            below = f"{place.removesuffix('part')}dram." if folder == "aim_devices" else below
            below = f"{place}." if folder == "duplex_devices" else below
            inner = places_in(INNER[key], str(path.parent / value) if value.endswith(".yaml") else value)
            found |= {f"{below}{place}": value for place, value in inner.items()}
        elif isinstance(value, str) and value in named_links():
            found |= {f"{place}.{place_in}": value for place_in, value in leaves(named_links()[value])}
    if folder == "parts":
        found |= {"devices": 1, "one_bus": False}
    return {place: value for place, value in found.items() if place.rpartition(".")[2] not in NAMES}


def others(value: Any) -> list[str]:
    """Other values of the same type, far and near."""
    if isinstance(value, bool):
        return [str(not value).lower()]
    if isinstance(value, int):
        return [str(n) for n in (value * 2, value // 2, 1, value + 1, value * 8, value * 100, 1000) if n != value]
    if isinstance(value, float):
        return [repr(value * by) for by in (2, 0.5, 1.01, 1e-5, 1e4)] if value else ["3.0", "0.5"]
    if isinstance(value, str) and (found := re.fullmatch(r"([\d.]+) ?(\w+)", value)):
        number, unit = float(found[1]), found[2]
        return [f"{number * by:g} {unit}" for by in (2, 8, 40, 0.5, 1.5, 400)] + [f"{n} {unit}" for n in (7, 60, 900)]
    return ["7", "0.5"] if value is None else []


def _words(ask: Ask, place: str, value: str) -> list[str]:
    """The other allowed words, from the error for a wrong one."""
    said = ask(place, "no-such-word")
    found = re.search(r"expected one of ([\w, -]+?)(?:, got|; |$)", said) if isinstance(said, str) else None
    return [word for word in (found[1].split(", ") if found else ()) if word != value]


def command_asks(*arguments: str, system: str = "") -> Ask:
    """The JSON of a command without digests. system: the system of a comparison whose places are set."""

    def ask(place: str, text: str) -> Any:
        done = call(*arguments, *(("--set", f"{system}{place}={text}") if place else ()), "--json", "-", "--quiet")
        return done.err if done.code else _without(json.loads(done.out))

    return ask


def _without(found: Any) -> Any:
    """A result without the fields of `OWN`."""
    if isinstance(found, dict):
        return {key: _without(value) for key, value in found.items() if key not in OWN}
    return [_without(value) for value in found] if isinstance(found, list) else found


def quiet(
    asks: Sequence[Ask], places: Mapping[str, Any], alone: Mapping[str, str] = MappingProxyType({})
) -> dict[str, list[str]]:
    """The places whose other values all commands accept without a change or refuse without a reason, with these values.
    alone: endings of the places that are left out."""
    left = {place: value for place, value in places.items() if not any(map(place.endswith, alone))}
    found: dict[str, list[str]] = {}
    for ask in asks:
        plain = ask("", "")
        assert not isinstance(plain, str), plain
        assert plain == ask("", "")  # else any value would change it
        found = {place: same for place, value in left.items() if (same := _quiet(ask, plain, place, value))}
        left = {place: left[place] for place in found}
    return found


def _quiet(ask: Ask, plain: Any, place: str, value: Any) -> list[str]:
    """The values that a command accepts without a change; if there are none, its errors that have no reason."""
    same, said = list[str](), list[str]()
    for text in others(value) or (_words(ask, place, value) if isinstance(value, str) else ()):
        other = ask(place, text)
        if isinstance(other, str) and not REFUSED.search(other):
            said.append(other)
        elif other != plain:
            return []
        else:
            same.append(text)
    if same:
        return [] if any(re.search("memory|need|holds|registers below", one) for one in said) else same
    return [] if any(map(AGREE.search, said)) else said


def model_in(folder: Path, **fields: Any) -> str:
    """A small model in a file."""
    config = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 1024, "num_attention_heads": 8,
        "num_key_value_heads": 8, "intermediate_size": 1024, "max_position_embeddings": 512, "vocab_size": 1000,
        "rms_norm_eps": 1e-5,
    }  # fmt: skip
    (folder / "model.json").write_text(json.dumps(config | fields))
    return str(folder / "model.json")
