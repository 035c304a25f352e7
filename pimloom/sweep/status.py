"""How far a sweep has come, from its rows and its starts."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pimloom.sweep.definition import Direction

if TYPE_CHECKING:
    import pandas

    Evaluate = Callable[[str, pandas.DataFrame], pandas.Series[Any]]


def status_of(
    frame: "pandas.DataFrame",
    code_digest: str,
    *,
    asked: int | None = None,
    objectives: Mapping[str, Direction] | None = None,
    value_of: "Evaluate | None" = None,
    feasible: "Evaluate | None" = None,
    constraints: Sequence[str] = (),
    runs: Sequence[Mapping[str, object]] = (),
    damaged: Sequence[str] = (),
) -> dict[str, object]:
    """What `pimloom sweep status` prints, as JSON values.

    frame: rows of all versions of the code; those of `code_digest` are counted. asked: points of the sweep, None if
    unknown. value_of: the values of an objective over a frame, a column of that name by default; feasible: which rows
    meet a constraint, asked for each of `constraints`.

    Fields: asked, finished (rows, failed ones too), failed, left (None if unknown), other_versions (rows), best
    (objective -> row, of those that did not fail and meet all constraints; None if there is none), last_finished_utc,
    runs, last_run, damaged.
    """
    own = frame[frame["code_digest"] == code_digest]
    good = own[own["error"].isna()]
    if feasible is not None:
        for constraint in constraints:
            good = good[feasible(constraint, good).fillna(False).astype(bool)]
    wanted = objectives or {}
    return {
        "asked": asked,
        "finished": len(own),
        "failed": int(own["error"].notna().sum()),
        "left": None if asked is None else max(0, asked - len(own)),
        "other_versions": len(frame) - len(own),
        "best": {name: _best(good, name, wanted[name], value_of or _column) for name in wanted},
        "last_finished_utc": None if own["finished_utc"].isna().all() else str(own["finished_utc"].dropna().max()),
        "runs": len(runs),
        "last_run": dict(runs[-1]) if runs else None,
        "damaged": list(damaged),
    }


def plain_rows(frame: "pandas.DataFrame") -> list[dict[str, object]]:
    """The rows of a frame as JSON values: numbers of Python, None for what is missing."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(name): _plain(value) for name, value in row.items()} for row in plain.to_dict("records")]


def _best(good: "pandas.DataFrame", name: str, direction: Direction, value_of: "Evaluate") -> dict[str, object] | None:
    """The row with the best value, the first of equals."""
    if good.empty:
        return None
    values = value_of(name, good).astype(float).dropna()
    if values.empty:
        return None
    label = values.idxmax() if direction == "max" else values.idxmin()
    return plain_rows(good.loc[[label]])[0]


def _column(name: str, frame: "pandas.DataFrame") -> Any:
    return frame[name]


def _plain(value: Any) -> object:
    return value.item() if hasattr(value, "item") else value
