"""How a result shows itself: as a dict, as a table of pandas, and in a notebook."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas


class Viewed:
    """Views of a result, which is a msgspec Struct or overrides `to_dict`. rows_in: the field with its rows, if any."""

    __slots__ = ()
    rows_in: ClassVar[str | None] = None

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, fields in their order: what `--json` prints."""
        import msgspec

        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def as_dict(self) -> dict[str, Any]:
        """The same as `to_dict`."""
        return self.to_dict()

    def to_rows(self) -> list[dict[str, Any]]:
        """The rows of the result, else the result as one row."""
        plain = self.to_dict()
        return [plain] if self.rows_in is None else plain[self.rows_in]

    def to_frame(self) -> "pandas.DataFrame":
        """The result's rows, or itself as one; columns as the CSV's, nested fields dotted: `workload.batch`."""
        import pandas  # slow to import, and only wanted here

        return pandas.json_normalize(self.to_rows())

    def _repr_html_(self) -> str:
        """Tables with units, bars of what times and energies are made of, and a timeline of a step where the result has
        one; for notebooks, light or dark."""
        from pimloom.systems.notebook import page

        rows: Sequence[Mapping[str, Any]] | None = None
        if self.rows_in is not None or len(self.to_rows()) != 1:
            rows = self.to_rows()
        about = {name: value for name, value in self.to_dict().items() if name != self.rows_in}
        return page(type(self).__name__, about, rows, self._drawings())

    def _drawings(self) -> Sequence[str]:
        """Timelines, as HTML."""
        return ()
