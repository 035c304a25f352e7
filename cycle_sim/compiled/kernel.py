"""Marks of the functions that are compiled. Each is plain Python; what calls them from outside calls an `entry`."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from pimloom.cycle_sim.compiled.arguments import flatten
from pimloom.cycle_sim.compiled.library import Machine, machine

PLAIN = os.environ.get("PIMLOOM_KERNELS") == "python"  # they run as Python, hundreds of times slower: for tests
Compiler = Callable[[Any, bool], Any]
compiler: Compiler | None = None  # set where kernels are compiled, before their modules are imported


def bare(function: Any) -> Any:
    """Compile without reference counts, with indices from zero, and inlined: plain arrays in, nothing allocated."""
    return compiler(function, True) if compiler else function


def rare(function: Any) -> Any:
    """As `bare`, not inlined: what seldom happens keeps out of the way of what often does."""
    return compiler(function, False) if compiler else function


def entry(function: Any, name: str | None = None) -> Any:
    """As `rare`, for a function that Python calls. name: `module:name`, where the function has not its own."""
    return compiler(function, False) if compiler else function if PLAIN else Entry(function, name)


class Entry:
    """A kernel that Python calls: as machine code, for the kinds of its arguments."""

    def __init__(self, function: Any, name: str | None = None) -> None:
        self.name = name or f"{function.__module__}:{function.__qualname__}"
        self.__doc__ = function.__doc__
        self._machines: dict[tuple[str, ...], Machine] = {}

    def __call__(self, *arguments: Any) -> Any:
        return self.bind(*arguments)()

    def bind(self, *arguments: Any) -> Callable[[], Any]:
        """A call with these arguments, to be made any number of times; it finds in the arrays what is there then."""
        kinds, words = flatten(arguments)
        found = self._machines.get(kinds)
        if found is None:
            found = self._machines[kinds] = machine(self.name, kinds)
        return found(words, arguments)


def bind(kernel: Any, *arguments: Any) -> Callable[[], Any]:
    """`kernel.bind`, for kernels that run as Python, too."""
    return kernel.bind(*arguments) if isinstance(kernel, Entry) else partial(kernel, *arguments)
