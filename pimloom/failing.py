"""What a command that fails prints, and its exit code."""

import errno
import os
import re
import sys
from typing import Any

import typer

from pimloom.arch.error import GateError, UserError, one_line
from pimloom.arch.inputs import unreadable

LONGEST_WORD = 400
UNREAD = 0  # who closes our stdout has read what they wanted


def say(error: Exception, shown: bool = False) -> int:
    """Print an error in one line; returns the exit code. shown: its traceback has been printed."""
    usage = typer.BadParameter.__mro__[1]  # UsageError: typer carries its own click and does not export it
    if isinstance(error, usage):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "pimloom"
        said = _elsewhere(error, context) or error.format_message()  # type: ignore[attr-defined]
        message = _readable(one_line(said))
        stop = "" if message.endswith((".", "?")) else "."
        print(f"{command}: {message}{stop} See `{command} --help`.", file=sys.stderr)
        return 2
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return UNREAD
    if isinstance(error, OSError):
        error = unreadable(error) or error
    if isinstance(error, UserError):
        print(f"pimloom: {_readable(one_line(error))}", file=sys.stderr)
        return 2
    if isinstance(error, GateError):
        print(f"pimloom: {one_line(error)}", file=sys.stderr)
        return 1
    if isinstance(error, OSError | UnicodeEncodeError):
        closed = getattr(error, "errno", None) == errno.EBADF
        why = "stdout is closed" if closed else getattr(error, "strerror", None) or error
        if getattr(error, "errno", None) == errno.ENAMETOOLONG:
            print(f"pimloom: {_readable(one_line(getattr(error, 'filename', '')))}: {one_line(why)}", file=sys.stderr)
            return 2
        _drop_output()
        print(f"pimloom: cannot write the output: {one_line(why)}", file=sys.stderr)
        return 2
    where = "" if shown else " (--debug shows where)"
    print(f"pimloom: internal error: {type(error).__name__}: {one_line(error)}{where}", file=sys.stderr)
    return 1


def _elsewhere(error: Exception, context: Any) -> str | None:
    """What to say of an option that other commands have."""
    option, root = getattr(error, "option_name", None), context and context.find_root().command
    if not option or not hasattr(error, "possibilities") or option == "--help":
        return None
    commands = root.whole() if hasattr(root, "whole") else {}
    having = [name for name, command in commands.items() if any(option in at.opts for at in command.params)]
    if not having:
        return None
    names = [f"`pimloom {name}`" for name in having]
    named = " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""
    return f"No such option: {option}; {named} {'has' if len(having) == 1 else 'have'} it"


def _readable(said: str) -> str:
    """With the ends only of words that no line has room for: a file, or an option, may hold anything."""
    return re.sub(rf"\S{{{LONGEST_WORD},}}", lambda found: f"{found[0][:100]}...{found[0][-40:]}", said)


def _drop_output() -> None:
    """Let what is left in stdout's buffer go nowhere, or Python would fail on it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
