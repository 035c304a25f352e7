"""What a command's imports put off: modules that others import as they load, and that most commands never use.

Such a module is there at once; what stands in it is made when something in it is asked for, by whichever thread. Of
numpy's help, a sixth of its import, nothing is made. Beware: what stands in place of a function calls it, but is not
the same to who compares, pickles or, as numba, registers it.
"""

import os
import sys
import typing
from collections.abc import Mapping
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any


class NDArray:
    """Stands for numpy's own in annotations of numpy's."""

    def __class_getitem__(cls, _: object) -> type["NDArray"]:
        return cls


def _asked(module: str, *names: str) -> dict[str, Any]:
    """Functions in place of a module's own, which they call."""

    def in_place_of(name: str) -> Any:
        def function(*arguments: Any, **named: Any) -> Any:
            late = sys.modules[module]
            if isinstance(late, _Late):
                object.__getattribute__(late, "__spec__").loader_state.make(late)
            return getattr(late, name)(*arguments, **named)

        return function

    return {name: in_place_of(name) for name in names}


def _of_typing(*names: str) -> dict[str, Any]:
    return {name: getattr(typing, name) for name in names}


HELP = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
LATER: Mapping[str, Mapping[str, Any]] = {  # module: what is in it meanwhile
    "difflib": _asked("difflib", "get_close_matches"),
    "gettext": _asked("gettext", "gettext"),
    "numpy._typing": {"NDArray": NDArray},
    **dict.fromkeys((f"numpy.lib.{name}" for name in ("format", "introspect", "mixins", "npyio", "scimath")), {}),
    "numpy.linalg": _asked("numpy.linalg", "eigvals", "inv", "lstsq", "matrix_power"),
    "typing_extensions": _of_typing("NotRequired", "Required", "get_type_hints"),  # as msgspec does where there is none
    "platform": {"system": lambda: os.uname().sysname},
    **dict.fromkeys(("bz2", "csv", "json", "lzma", "msgspec.inspect", "msgspec.toml", "msgspec.yaml", "pickle"), {}),
    **dict.fromkeys(("shellingham", "subprocess", "textwrap", "tokenize"), {}),
}
NEEDED = {"bz2": "_bz2", "lzma": "_lzma"}  # who imports these looks whether they are there
AT_ONCE = frozenset(
    f"__{name}__" for name in ("class", "dict", "name", "spec", "loader", "file", "path", "package", "cached")
)


class Sparing:
    """A finder: of the modules above."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As Python asks finders."""
        if name in HELP:
            return ModuleSpec(name, _Nothing())  # type: ignore[arg-type]
        spec = PathFinder.find_spec(name, path, target) if name in LATER and _is_there(NEEDED.get(name)) else None
        if spec and spec.loader:
            spec.loader = _Later(spec.loader)  # type: ignore[assignment]
        return spec


def _is_there(name: str | None) -> bool:
    return name is None or name in sys.builtin_module_names or PathFinder.find_spec(name) is not None


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
        """Put in what is there meanwhile."""
        vars(module).update(LATER[module.__name__])
        assert module.__spec__
        module.__spec__.loader_state = self
        module.__class__ = _Late

    def make(self, module: ModuleType) -> None:
        """Put in the rest, unless it is there. What fails is tried again when something is asked for again."""
        with self._lock:  # another thread waits until all is there
            if self._begun:
                return
            self._begun = True
            try:
                module.__loader__ = self._real
                if module.__spec__:
                    module.__spec__.loader = self._real
                self._real.exec_module(module)
            except BaseException:
                self._begun = False
                raise
            module.__class__ = ModuleType


class _Late(ModuleType):
    """A module in which nothing is but what importing it looks at, until something else is asked for."""

    def __getattribute__(self, name: str) -> Any:
        own = super().__getattribute__
        if name not in AT_ONCE and name not in LATER[own("__name__")]:
            own("__spec__").loader_state.make(self)
        return own(name)


def put_off() -> None:
    """Let what is imported from now on be so."""
    sys.meta_path.insert(0, Sparing())
