"""What numpy's import leaves out in a command: its texts of help, and the kinds that its annotations name.

Both take a third of it. Where a numpy has them in other modules, or asks more of these, all is imported as ever.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

HELP = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
KINDS = "numpy._typing"


class NDArray:
    """Stands for numpy's own in annotations of numpy's."""

    def __class_getitem__(cls, _: object) -> type["NDArray"]:
        return cls


class Without:
    """Finds modules that hold nothing in place of these."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """As Python asks finders."""
        return ModuleSpec(name, self) if name == KINDS or name in HELP else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Python's own."""

    def exec_module(self, module: ModuleType) -> None:
        """Of help there is nothing; of the kinds what annotations name, and all else when it is asked for."""
        if module.__name__ == KINDS:
            vars(module).update(NDArray=NDArray, __getattr__=lambda name: self._whole(module, name))

    def _whole(self, module: ModuleType, name: str) -> Any:
        """What else is asked for comes with the real module, also to who has this one."""
        if name == "__path__" and "linalg" not in vars(sys.modules["numpy"]):  # numpy's own import asks
            raise AttributeError(name)
        if self in sys.meta_path:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            del sys.modules[KINDS]
            real = import_module(KINDS)
            vars(module).clear()
            vars(module).update(vars(real))
        return getattr(sys.modules[KINDS], name)


def put_off() -> None:
    """Let numpy's import, if it is still to come, go without them."""
    if "numpy" not in sys.modules:
        sys.meta_path.insert(0, Without())  # type: ignore[arg-type]
