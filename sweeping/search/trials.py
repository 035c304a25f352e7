"""The batches that a search asked for, one JSON file each: a later start reads them instead of choosing again."""

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pimloom.arch.error import UserError
from pimloom.arch.files import prepare_folder, write_atomic
from pimloom.arch.load import load_json
from pimloom.sweeping.search.space import Place, Space

_LARGEST_BYTES = 64 << 20


@dataclass(frozen=True)
class Trials:
    """The files `batch-000000.json` ... in `folder`, whose points lie in `space`.

    A file holds `batch`, its number; `basis`, a digest of all that decided its points; `axes`, their places; and
    `points`, one value per axis. A file of another basis, a damaged one or a link counts as absent and is replaced.
    """

    folder: Path
    space: Space

    def read(self, number: int, basis: str, count: int, taken: Container[Place]) -> list[Place] | None:
        """The `count` places of a batch, none of them `taken`; None if there is no sound file of it."""
        path = self._path(number)
        try:
            tree = load_json(path, _LARGEST_BYTES) if path.is_file() and not path.is_symlink() else None
        except UserError:
            return None
        if not isinstance(tree, dict) or tree != self._header(number, basis) | {"points": tree.get("points")}:
            return None
        return self._places(tree["points"], count, taken)

    def write(self, number: int, basis: str, places: Sequence[Place]) -> None:
        """Write a batch in one step; the same batch is the same bytes. UserError if the disk does not take it."""
        header = json.dumps(self._header(number, basis), ensure_ascii=False)
        points = ",\n".join(json.dumps(list(self.space.point(place).values()), ensure_ascii=False) for place in places)
        prepare_folder(self.folder)
        if (path := self._path(number)).is_symlink():  # Beware: `write_atomic` writes where a link points.
            path.unlink()
        write_atomic(path, f'{header[:-1]}, "points": [\n{points}\n]}}\n', own=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"batch-{number:06}.json"

    def _header(self, number: int, basis: str) -> dict[str, Any]:
        return {"batch": number, "basis": basis, "axes": [axis.place for axis in self.space.axes]}

    def _places(self, points: object, count: int, taken: Container[Place]) -> list[Place] | None:
        if not isinstance(points, list) or len(points) != count:
            return None
        places = [place for point in points if isinstance(point, list) and (place := self.space.place_of(point))]
        repeats = len(set(places)) < len(places) or any(place in taken for place in places)
        return places if len(places) == count and not (repeats and self.space.size is not None) else None
