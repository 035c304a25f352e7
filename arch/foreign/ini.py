"""An INI file as DRAMsim3 reads it, but strictly: a bad line or value is one `UserError` with file and line.

Sections, `key = value` (or `key: value`), comments from `;` or `#` on; names do not depend on case.
"""

import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple, NoReturn

from pimloom.arch.document import nearest, read_text, short
from pimloom.arch.error import UserError

_INTEGER = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})", re.ASCII)  # DRAMsim3 takes 010 for 8
_REAL = re.compile(r"[-+]?(?:\d{1,18}\.?\d{0,18}|\.\d{1,18})(?:[eE][-+]?\d{1,2})?", re.ASCII)
_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class Entry(NamedTuple):
    """One `key = value` of a file, with its line from 1."""

    section: str
    key: str
    text: str
    line: int


class Ini:
    """The entries of a file; the reading methods return `default` for a key that is not there, and note that.

    A default of None makes the key required. `defaults`: key -> the default that was taken.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self.entries: dict[tuple[str, str], Entry] = {}
        self.defaults: dict[str, str] = {}
        self.wanted: list[tuple[str, str]] = []
        section, last = "", False
        for line, written in enumerate(read_text(path).splitlines(), 1):
            text = re.split("[;#]", written, maxsplit=1)[0].strip()
            if text.startswith("["):
                section, last = self._section(text, line), False
            elif text:
                if last and written[:1].isspace():
                    self.fail(line, "an indented line would continue the value above it; write it from column 1 on")
                self._pair(section, text, line)
                last = True

    def _section(self, text: str, line: int) -> str:
        if not text.endswith("]") or not text[1:-1].strip():
            self.fail(line, f"expected [section], got {short(text)}")
        return text[1:-1].strip()

    def _pair(self, section: str, text: str, line: int) -> None:
        key, sign, value = re.split("([=:])", text, maxsplit=1) if re.search("[=:]", text) else (text, "", "")
        key, value = key.strip(), value.strip()
        if not sign or not key:
            self.fail(line, f"expected key = value, got {short(text)}")
        if not section:
            self.fail(line, f"{short(key)} stands before the first [section]")
        if not value:
            self.fail(line, f"[{section}] {short(key)}: expected a value, got nothing")
        name = (section.lower(), key.lower())
        if name in self.entries:
            self.fail(line, f"[{section}] {short(key)} is given twice, first on line {self.entries[name].line}")
        self.entries[name] = Entry(section, key, value, line)

    def fail(self, line: int | None, said: str) -> NoReturn:
        """Raise UserError about a line, or about the file."""
        raise UserError(f"{self.file}{f':{line}' if line else ''}: {said}")

    def entry(self, section: str, key: str) -> Entry | None:
        """The entry of a key, if the file has it; counts as read."""
        self.wanted.append((section, key))
        return self.entries.get((section.lower(), key.lower()))

    def line(self, section: str, key: str) -> int | None:
        """The line of a key, or None if the file does not have it."""
        found = self.entries.get((section.lower(), key.lower()))
        return found.line if found else None

    def refuse(self, section: str, key: str, expected: str, remedy: str = "") -> NoReturn:
        """Raise UserError about the value of a key; without one, about the key that is missing."""
        found = self.entries.get((section.lower(), key.lower()))
        if found is None:
            default = self.defaults.get(key)
            got = "it is missing" if default is None else f"it is missing, and DRAMsim3's default is {default}"
            self.fail(None, f"[{section}] {key}: expected {expected}; {got}")
        self.fail(found.line, f"[{found.section}] {found.key}: expected {expected}, got {short(found.text)}{remedy}")

    def text(self, section: str, key: str, default: str | None) -> str:
        """A text as written."""
        found = self.entry(section, key)
        if found is not None:
            return found.text
        if default is None:
            self.refuse(section, key, "a value")
        self.defaults[key] = default
        return default

    def choice(self, section: str, key: str, default: str | None, known: Collection[str]) -> str:
        """One of several words."""
        if default is None and self.entry(section, key) is None:
            self.refuse(section, key, f"one of {', '.join(known)}")
        text = self.text(section, key, default)
        if text not in known:
            self.refuse(section, key, f"one of {', '.join(known)}", nearest(text, known))
        return text

    def flag(self, section: str, key: str, default: bool) -> bool:
        """True or false, in any of the words of the format."""
        text = self.text(section, key, "true" if default else "false").lower()
        if text not in _FLAGS:
            self.refuse(section, key, "true or false")
        return _FLAGS[text]

    def integer(self, section: str, key: str, default: int, low: int, high: int) -> int:
        """An integer from `low` to `high`."""
        text = self.text(section, key, str(default))
        if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
            self.refuse(section, key, f"int >= {low} and <= {high}")
        return int(text)

    def power_of_two(self, section: str, key: str, default: int, low: int, high: int) -> int:
        """A power of two from `low` to `high`."""
        text = self.text(section, key, str(default))
        value = int(text) if _INTEGER.fullmatch(text) else 0
        if not low <= value <= high or value & (value - 1):
            self.refuse(section, key, f"a power of two >= {low} and <= {high}")
        return value

    def real(self, section: str, key: str, default: float, low: float, high: float) -> float:
        """A finite number from `low` to `high`."""
        text = self.text(section, key, f"{default:g}")
        value = float(text) if _REAL.fullmatch(text) else math.nan
        if not low <= value <= high:
            self.refuse(section, key, f"number >= {low:g} and <= {high:g}")
        return value
