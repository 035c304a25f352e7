"""The options of commands as data: names, kinds and ranges, read from the signatures that the command line has."""

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from inspect import signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo

from pimloom import typed
from pimloom.arch.document import nearest
from pimloom.arch.error import UserError

WORDED = ("USD", "HOW", "SHARE")  # metavars of texts that may be one number, such as 1.29, 8 or 0.2
SEVERAL = ("N,N", "F", "NAMES", "NODES")  # metavars of texts that list values
KEYED = "KEY=VALUE"
PATHS = {  # metavars of paths
    "FILE": "a file", "FILE.svg": "a file", "DIR": "a folder", "TRACE": "a file", "PROGRAM": "a file",
}  # fmt: skip


class Option(NamedTuple):
    """One option or argument of a command. name: Python's; parameter: the command's own; flag: as typed, or ''."""

    name: str
    parameter: str
    flag: str
    kind: type
    many: bool
    may_be_none: bool
    default: object
    metavar: str
    least: float | None
    most: float | None

    def read(self, value: object) -> Any:
        """A value of Python as the command takes it. Raises UserError."""
        if value is None and self.may_be_none:
            return None
        if self.many:
            return typed.settings(value) if self.metavar.endswith(KEYED) else typed.named_numbers(self.name, value)
        if issubclass(self.kind, StrEnum):
            return _one_of(self.name, self.kind, value)
        read = self._read_plain(value)
        number = read if isinstance(read, int | float) and not isinstance(read, bool) else None
        if number is not None and self.least is not None and number < self.least:
            raise UserError(f"{self.name}={number}: expected at least {self.least:g}")
        if number is not None and self.most is not None and number > self.most:
            raise UserError(f"{self.name}={number}: expected at most {self.most:g}")
        return read

    def _read_plain(self, value: object) -> Any:
        if self.kind is bool:
            return typed.flag(self.name, value)
        if self.kind is int:
            return typed.count(self.name, value)
        if self.kind is float:
            return typed.number(self.name, value)
        if self.metavar in PATHS and isinstance(value, str) and not value:
            typed.fail(self.name, PATHS[self.metavar], value)
        if self.kind is Path:
            return Path(typed.text(self.name, value))
        if self.metavar == "N":  # a count that may be typed as 1e6
            return str(typed.count(self.name, value))
        if self.metavar in WORDED:
            return typed.worded(self.name, value)
        return typed.listed(self.name, value) if self.metavar in SEVERAL else typed.text(self.name, value)


def _one_of(name: str, kind: type[StrEnum], value: object) -> StrEnum:
    known = [str(one.value) for one in kind]
    text = typed.text(name, value)
    if text not in known:
        raise UserError(f"{name}={text}: expected one of {', '.join(known)}{nearest(text, known)}")
    return kind(text)


@lru_cache(maxsize=64)
def options_of(command: Callable[..., Any]) -> tuple[Option, ...]:
    """The options and arguments of a function that typer makes a command of, in their order."""
    return tuple(
        _option(name, given.annotation, given.default) for name, given in signature(command).parameters.items()
    )


def _option(parameter: str, annotation: Any, default: object) -> Option:
    assert get_origin(annotation) is Annotated
    kind, info = get_args(annotation)[:2]
    assert isinstance(info, OptionInfo | ArgumentInfo)
    kinds = get_args(kind) if get_origin(kind) in (UnionType, Union) else (kind,)
    (plain,) = (each for each in kinds if each is not NoneType)
    names = (info.default, *(info.param_decls or ()))  # typer keeps the first name where others have a default
    long = [name for name in names if isinstance(name, str) and name.startswith("--")]
    typed_as = long[0].split("/")[0] if long else f"--{parameter.replace('_', '-')}"  # --x/--no-x: its first
    flag = "" if isinstance(info, ArgumentInfo) else typed_as
    name = flag.removeprefix("--").replace("-", "_") or parameter
    many, value = get_origin(plain) is list, default
    return Option(
        name,
        parameter,
        flag,
        str if many else plain,
        many,
        NoneType in kinds,
        value.value if isinstance(value, StrEnum) else value,
        info.metavar or "",
        info.min,
        info.max,
    )
