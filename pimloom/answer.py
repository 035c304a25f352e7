"""The result of a command that has no class of its own: the values of its JSON as attributes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pimloom.systems.viewed import Viewed


class Answer(Viewed):
    """What a command found: `answer.rows` is field `rows` of its JSON, and so are all others; nothing can be set.

    `to_frame()` has the rows that the command's `--csv` writes.
    """

    __slots__ = ("_rows", "_show", "_values")
    _rows: Sequence[Mapping[str, Any]] | None
    _show: Callable[[], object]
    _values: Mapping[str, Any]

    def __init__(
        self,
        values: Mapping[str, Any],
        show: Callable[[], object],
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """values: the JSON; show: prints it for a person; rows: those of the table, the values themselves if None."""
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_show", show)
        object.__setattr__(self, "_rows", rows)

    def __getattr__(self, name: str) -> Any:
        values = {} if name.startswith("__") else self._values
        if name in values:
            return values[name]
        raise AttributeError(f"no field {name!r}; there are {', '.join(self._values)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: a result is not changed")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return f"Answer({', '.join(f'{name}={_brief(value)}' for name, value in self._values.items())})"

    def show(self) -> None:
        """Print what the command prints."""
        self._show()

    def to_dict(self) -> dict[str, Any]:
        """The values that `--json` prints."""
        return dict(self._values)

    def to_rows(self) -> list[dict[str, Any]]:
        """The rows of the table, else the values as one row."""
        return [self.to_dict()] if self._rows is None else [dict(row) for row in self._rows]

    def _repr_html_(self) -> str:
        from pimloom.systems.notebook import page

        about = {name: value for name, value in self._values.items() if value is not self._rows}
        return page("", about, self._rows)


def _brief(value: object) -> str:
    """
    >>> _brief([1, 2]), _brief({"a": 1}), _brief("a")
    ('[2 values]', '{1 values}', "'a'")
    """
    if isinstance(value, list | tuple):
        return f"[{len(value):,} values]"
    return f"{{{len(value):,} values}}" if isinstance(value, Mapping) else repr(value)
