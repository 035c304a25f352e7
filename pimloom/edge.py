"""The edge between commands and Python: options of the right kind go in, errors come out in Python's words."""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from pimloom.arch.document import nearest
from pimloom.arch.error import GateError, UserError, one_line
from pimloom.arch.files import together
from pimloom.arch.inputs import begin, unreadable

P = ParamSpec("P")
R = TypeVar("R")
NOT_IN_PYTHON = ("json", "quiet")  # a result has `to_dict`, and prints nothing
OPTION = re.compile(r"(?<![\w`-])--([a-z][a-z-]*)(?![\w-])(?:([ =])(\S+))?")
META = re.compile(r"[A-Z]+(:[A-Z]+)*|[-+]?[\d.,:e+-]*\d|'[^']*'")  # FILE, FROM:TO, 1024, 8,16


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A function of the Python API: whatever is given, the only error is a UserError, which names its arguments.

    A gate that does not hold is no error here: the result says so.
    """
    takes = signature(function)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = takes.bind(*args, **kwargs)
        except TypeError as error:
            raise UserError(_wrong_call(function.__name__, takes.parameters, kwargs, error)) from None
        bound.apply_defaults()
        begin()
        try:
            with together():
                return function(*args, **kwargs)
        except GateError as error:
            if error.found is None:
                raise
            found: R = error.found  # type: ignore[assignment]
            return found
        except UserError as error:
            raise UserError(in_python(str(error), bound.arguments)) from error
        except OSError as error:
            if (refused := unreadable(error)) is None:
                raise
            raise refused from error

    return called


def ask(command: Callable[..., Any], given: Mapping[str, Any], run: Callable[..., R] | None = None) -> R:
    """Call a command as its options were given in Python: each checked, and put as the command line would put it.

    given: by the names of Python. run: what is called instead of the command, with its parameters. Raises UserError.
    """
    from pimloom.options import options_of

    read = {
        option.parameter: option.read(given[option.name])
        for option in options_of(command)
        if option.name in given and option.name not in NOT_IN_PYTHON
    }
    if run is not None:
        return run(**read)
    quiet = {"quiet": True} if "quiet" in signature(command).parameters else {}
    return command(**read, **quiet)


def in_python(said: str, given: Mapping[str, object] | None = None) -> str:
    """An error of a command with its options as arguments of Python; commands in backticks stay as they are.

    given: the arguments of the call.

    >>> in_python("--micro-batch 0: expected 1; write --prompt P --generate N, or --requests a list")
    'micro_batch=0: expected 1; write prompt=P generate=N, or requests a list'
    >>> in_python("--set dram.a: no such key, such as --set controller.page=closed; see `pimloom run --help`")
    "set['dram.a']: no such key, such as set={'controller.page': 'closed'}; see `pimloom run --help`"
    """
    shell = re.split(r"(`pimloom [^`]*`)", said.replace("; only --json - is stdout", ""))
    return "".join(
        piece if nth % 2 else OPTION.sub(lambda m: _argument(m, given or {}), piece) for nth, piece in enumerate(shell)
    )


def _argument(found: re.Match[str], given: Mapping[str, object]) -> str:
    name, gap, word = found[1].replace("-", "_"), found[2] or "", found[3] or ""
    bare = word.rstrip(":;,.)")
    rest = word[len(bare) :]
    if not bare:
        return f"{name}{rest}" if not gap else f"{name}{gap}{word}"
    if name == "set":
        place, equals, value = bare.partition("=")
        if equals:
            return f"set={{{place!r}: {value!r}}}{rest}"
        return f"set[{place!r}]{rest}" if "." in place.strip(".") or rest else f"set{gap}{word}"
    mine = [one.split(" ")[0].rstrip(":;,.)") for one in _words(given.get(name))]
    if META.fullmatch(bare) or bare in mine:
        return f"{name}={word}"
    return f"{name}{gap}{OPTION.sub(lambda m: _argument(m, given), word)}"


def _words(value: object) -> list[str]:
    """What a command would say of a value."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [f"{key}={each}" for key, each in value.items()]
    return [",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)]


def _wrong_call(name: str, takes: Mapping[str, Parameter], kwargs: Mapping[str, object], error: TypeError) -> str:
    for word in kwargs:
        if word not in takes:
            return f"{name}: there is no argument {one_line(word)!r}{nearest(word, takes)}; it takes {', '.join(takes)}"
    return f"{name}: {one_line(error)}; it takes {', '.join(takes)}"
