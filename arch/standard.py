"""A DRAM standard and its PIM instruction set: their files, the rows that hold for a part, and sums of timings."""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from pimloom.arch.command import Command, Rule, Standard
from pimloom.arch.error import UserError

HERE = Path(__file__).parent


@lru_cache(maxsize=64)
def join_tables(standard: str, pim: str | None) -> Standard:
    """The standard `arch/dram/STANDARD.py`, with the rows of `arch/pim/PIM.py` appended."""
    found = _module("dram", standard)
    if pim is None:
        return found
    more = _module("pim", pim)
    return Standard(
        f"{found.name}+{more.name}",
        {**found.timings, **more.timings},
        found.commands + more.commands,
        found.rules + more.rules,
        found.unmodelled + more.unmodelled,
        found.refresh,
        {**found.optional, **more.optional},
        found.postponed,
    )


def _module(folder: str, name: str) -> Standard:
    known = sorted(p.stem for p in (HERE / folder).glob("*.py") if p.stem != "__init__")
    if name not in known:
        raise UserError(f"unknown {folder} table {name!r}; arch/{folder} holds: {', '.join(known)}")
    table: Standard = import_module(f"pimloom.arch.{folder}.{name}").STANDARD
    return table


_TERM = re.compile(r"\s*([+-]?)\s*(\w+)")


def clocks(expression: str, ck: Mapping[str, int]) -> int:
    """Value in clocks of a sum of timing names and integers.

    >>> clocks("nCL + nBL + 3 - nCWL", {"nCL": 24, "nBL": 2, "nCWL": 6})
    23
    """
    number, terms = _terms(expression)
    return number + sum([sign * ck[name] for sign, name in terms])


@lru_cache(maxsize=4096)
def _terms(expression: str) -> tuple[int, tuple[tuple[int, str], ...]]:
    """The sum of the integers, and each timing with its sign. Raises ValueError for what is no sum."""
    number, terms, end = 0, list[tuple[int, str]](), 0
    for term in _TERM.finditer(expression):
        sign, name = -1 if term[1] == "-" else 1, term[2]
        if name.isdigit():
            number += sign * int(name)
        else:
            terms.append((sign, name))
        end = term.end()
    if expression[end:].strip():
        raise ValueError(f"cannot read {expression!r}")
    return number, tuple(terms)


@lru_cache(maxsize=4096)
def _timings(expression: str) -> frozenset[str]:
    """Names of a sum of timings: those of all parts are few."""
    return frozenset(name for _, name in _TERM.findall(expression))


def read_timings(standard: str, pim: str | None, timing: Collection[str], commands: Collection[str]) -> frozenset[str]:
    """Timings of a part that one of these commands takes, or a rule between two of them."""
    known, rules = given(join_tables(standard, pim), timing)
    found = {name for c in known if c.name in commands for name in _timings(c.done)}
    for rule in rules:
        if not (set(rule.after).isdisjoint(commands) or set(rule.before).isdisjoint(commands)):
            found |= _timings(rule.wait)
    return frozenset(found)


def given(standard: Standard, timings: Collection[str]) -> tuple[tuple[Command, ...], tuple[Rule, ...]]:
    """The standard's commands and rules without those that name an optional timing which is not in `timings`."""
    absent = standard.optional.keys() - set(timings)

    def known(expression: str) -> bool:
        return absent.isdisjoint(_timings(expression))

    commands = tuple(c for c in standard.commands if known(c.done))
    names = {c.name for c in commands}
    rules = []
    for rule in standard.rules:
        after, before = (tuple(n for n in side if n in names) for side in (rule.after, rule.before))
        if after and before and known(rule.wait):
            rules.append(rule._replace(after=after, before=before))
    return commands, tuple(rules)
