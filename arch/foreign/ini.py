"""An INI file as DRAMsim3 reads it: a line or value that it cannot read is one `UserError` with file and line.

Sections, `key = value` (or `key: value`), comments from `;` or `#` on; names do not depend on case. Facts of its
INIReader (umd-memsys/DRAMsim3@29817593, `ext/headers` [recalled]): of a number it takes what `strtol` or `strtod` reads
of it, where there is no value the default, and the first of values given twice and of indented lines, which continue
the value above. `notes` has a sentence for each of these.
"""

import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple, NoReturn

from pimloom.arch.document import nearest, read_text, short
from pimloom.arch.error import UserError

_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]{1,15}|0[0-7]{0,17}|[1-9]\d{0,17})(?!\d)", re.ASCII)
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
        self.notes: list[tuple[int, str]] = []  # line, sentence
        section, last = "", ""
        for line, written in enumerate(read_text(path).splitlines(), 1):
            text = re.split("[;#]", written, maxsplit=1)[0].strip()
            if text.startswith("["):
                section, last = self._section(text, line), ""
            elif text and last and written[:1].isspace():
                self._value(section, last, text, line, "an indented line continues the value above it")
            elif text:
                last = self._pair(section, text, line)

    def _section(self, text: str, line: int) -> str:
        if not text.endswith("]") or not text[1:-1].strip():
            self.fail(line, f"expected [section], got {short(text)}")
        return text[1:-1].strip()

    def _pair(self, section: str, text: str, line: int) -> str:
        key, sign, value = re.split("([=:])", text, maxsplit=1) if re.search("[=:]", text) else (text, "", "")
        key, value = key.strip(), value.strip()
        if not sign or not key:
            self.fail(line, f"expected key = value, got {short(text)}")
        if not section:
            self.fail(line, f"{short(key)} stands before the first [section]")
        self._value(section, key, value, line, f"{short(key)} is given twice")
        return key

    def _value(self, section: str, key: str, value: str, line: int, why: str) -> None:
        """Of several values the first that is not empty holds."""
        name = (section.lower(), key.lower())
        first = self.entries.get(name)
        if first and first.text:
            self.notes.append((line, f"{why}; DRAMsim3 takes {short(first.text)}, of line {first.line}"))
        else:
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
        if found is not None and (found.text or default is None):
            return found.text
        if found is not None:
            self.notes.append((found.line, f"{short(found.key)} has no value; DRAMsim3 takes its default, {default}"))
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
        value = self._read_integer(section, key, self.text(section, key, str(default)))
        if value is None or not low <= value <= high:
            self.refuse(section, key, f"int >= {low} and <= {high}")
        return value

    def _read_integer(self, section: str, key: str, text: str) -> int | None:
        """What `strtol` makes of a text; None: no number."""
        if (match := _INTEGER.match(text)) is None:
            return None
        sign, digits = match.groups()
        base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
        value = int(digits, base) * (-1 if sign == "-" else 1)
        if text.lstrip("+") != str(value):
            self._read_as(section, key, text, str(value))
        return value

    def _read_as(self, section: str, key: str, text: str, value: str) -> None:
        """Note that a text is more than its number."""
        if line := self.line(section, key):
            self.notes.append((line, f"{key} = {short(text)}: DRAMsim3 reads {value}"))

    def power_of_two(self, section: str, key: str, default: int, low: int, high: int) -> int:
        """A power of two from `low` to `high`."""
        value = self._read_integer(section, key, self.text(section, key, str(default))) or 0
        if not low <= value <= high or value & (value - 1):
            self.refuse(section, key, f"a power of two >= {low} and <= {high}")
        return value

    def real(self, section: str, key: str, default: float, low: float, high: float) -> float:
        """A finite number from `low` to `high`."""
        text = self.text(section, key, f"{default:g}")
        match = _REAL.match(text)
        value = float(match[0]) if match else math.nan
        if match and match[0] != text:
            self._read_as(section, key, text, f"{value:g}")
        if not low <= value <= high:
            self.refuse(section, key, f"number >= {low:g} and <= {high:g}")
        return value
