"""A module with kernels as plain Python on arrays that refuse negative indices: `python -m tests.strict MODULE …`.

Compiled kernels take each index as it is; Python alone would count one below zero from the end.
"""

import os
import runpy
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

os.environ["PIMLOOM_KERNELS"] = "python"

import numpy as np

from pimloom.cycle_sim.compiled import kernel

_INTEGERS = (int, np.integer)
_get, _set = np.ndarray.__getitem__, np.ndarray.__setitem__


class Strict(np.ndarray):
    """An array without negative places."""

    def __getitem__(self, at: Any) -> Any:
        if at.__class__ is tuple:
            _check(at)
        elif isinstance(at, _INTEGERS) and at < 0:
            raise AssertionError(f"index {at}")
        return _get(self, at)

    def __setitem__(self, at: Any, value: Any) -> None:
        _check(at if at.__class__ is tuple else (at,))
        _set(self, at, value)


def _check(places: tuple[Any, ...]) -> None:
    for i in places:
        if isinstance(i, _INTEGERS) and i < 0:
            raise AssertionError(f"index {i}")


def _strict(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.view(Strict)
    return type(x)(*map(_strict, x)) if isinstance(x, tuple) and hasattr(x, "_fields") else x


class _Strictly(threading.local):
    """Makes kernels whose arrays are strict from their caller outside the kernels on."""

    inside = False

    def __call__(self, function: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
        @wraps(function)
        def strict(*arguments: Any) -> Any:
            if self.inside:
                return function(*arguments)
            self.inside = True
            try:
                return function(*map(_strict, arguments))
            finally:
                self.inside = False

        return strict


if __name__ == "__main__":
    kernel.bare = kernel.rare = kernel.entry = _Strictly()
    for name in [name for name in sys.modules if name.startswith("pimloom.cycle_sim") and ".compiled" not in name]:
        del sys.modules[name]  # kernels that came with it
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
