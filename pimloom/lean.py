"""What a command's imports put off: modules that others import as they load, and that most commands never use.

Such a module is there at once; what stands in it is made when something in it is asked for, by whichever thread. Of
numpy's help, a sixth of its import, nothing is made.
"""

import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any


class NDArray:
    """Stands for numpy's own in annotations of numpy's."""

    def __class_getitem__(cls, _: object) -> type["NDArray"]:
        return cls


HELP = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
LATER: Mapping[str, Mapping[str, Any]] = {  # module: what is in it meanwhile
    "numpy._typing": {"NDArray": NDArray},
    **dict.fromkeys(("csv", "json", "pickle", "subprocess", "tokenize"), {}),
}


class Sparing:
    """A finder: of the modules above."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As Python asks finders."""
        if name in HELP:
            return ModuleSpec(name, _Nothing())  # type: ignore[arg-type]
        spec = PathFinder.find_spec(name, path, target) if name in LATER else None
        if spec and spec.loader:
            spec.loader = _Later(spec.loader)  # type: ignore[assignment]
        return spec


class _Nothing:
    """A loader of a module in which nothing is."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Python's own."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is."""


class _Later(_Nothing):
    """A loader that leaves the work to another one until something is asked for."""

    def __init__(self, real: Any) -> None:
        self._real, self._lock, self._begun = real, RLock(), False

    def exec_module(self, module: ModuleType) -> None:
        """Put in what is there meanwhile, and what makes the rest."""

        def ask(name: str) -> Any:
            with self._lock:  # another thread waits until all is there
                if not self._begun:
                    self._begun = True
                    self._make(module, ask)
            if name in vars(module):
                return vars(module)[name]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        vars(module).update(LATER[module.__name__], __getattr__=ask)

    def _make(self, module: ModuleType, ask: Any) -> None:
        module.__loader__ = self._real
        if module.__spec__:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        if vars(module).get("__getattr__") is ask:
            del module.__getattr__


def put_off() -> None:
    """Let what is imported from now on be so."""
    sys.meta_path.insert(0, Sparing())
