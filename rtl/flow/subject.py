"""A block that something is proved of, and how its questions are made."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pimloom.rtl.formal.question import Task


class Subject(NamedTuple):
    """A block and what is said of it. step: the property that the others assume; question(name, own, task, twin): in
    Yosys' language; key: beside the sources, all that decides the questions of a property.

    timings: what is free in the questions, where there are none of the part's own to ask about as well.
    """

    block: str
    part: str
    properties: Mapping[str, Any]
    step: str | None
    question: Callable[[str, bool, Task, Any], str]
    key: Callable[[str, bool, Task, Any], list[str]]
    timings: str | None = None
