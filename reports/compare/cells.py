"""The energy ledgers of several systems as a table, with a row for each cell and the class of each source."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING

from pimloom.arch.name_units import figure
from pimloom.arch.units import J_PER_MJ
from pimloom.energy.cells import CELLS, NONE, SUM_DIGITS, EnergyCell, bounds_of, ledger_j, sum_bounds
from pimloom.systems.devices.sizes import DIGITS

if TYPE_CHECKING:
    from pimloom.systems.serving.comparing import Compared

SUM = "sum"
LEGEND = (
    "A letter: the energy is part of a figure of several cells, in a row below. –: unknown, and not in the sum. "
    "0 none: the system has no such part. ≤: at most; ≥: at least. A sum is ≥ if a cell other than the host's is "
    "unknown, and ~ if a figure of it is also ≤."
)
SIGNS = {"upper": "≤ ", "lower": "≥ "}
INVERSE = {"≤ ": "≥ ", "≥ ": "≤ "}  # of a rate per unit of what has the sign


def size_rows(ran: "Sequence[Compared]") -> list[dict[str, object]]:
    """A row for each system: devices, memory bandwidth [GB/s], area [mm²], price [$/h], and its rate per unit of each.
    """
    return [
        {
            "system": one.system, "n": one.devices, "gb_s": one.memory_gb_s, "area": one.area_mm2, "usd": one.usd_per_h,
            **(one.tokens_per_s_by_size or {}), "w": per_watt_text(one),
        }
        for one in ran
    ]  # fmt: skip


def unknown_on_all(ledgers: Mapping[str, Mapping[str, EnergyCell]]) -> list[str]:
    """Cells for which no system has a figure."""
    return [cell for cell in CELLS if not any(ledger[cell].known for ledger in ledgers.values())]


def cells_line(ledger: Mapping[str, EnergyCell]) -> str:
    """Which cells are in an energy, in a sentence.

    >>> from pimloom.energy.cells import Spent, ledger_of
    >>> cells_line(ledger_of([Spent(CELLS[:8], 1.0, "paper", "power_w", "upper")], absent=["links"]))
    'energy holds 10 of 12 cells; unknown: dynamic and static host; some figures are upper bounds'
    """
    unknown = [cell for cell in CELLS if not ledger[cell].known]
    bounds = [bound for bound in ("upper", "lower") if bound in bounds_of(ledger)]
    said = f"energy holds {len(CELLS) - len(unknown)} of {len(CELLS)} cells; unknown: {_short(' + '.join(unknown))}"
    return said + f"; some figures are {' and '.join(bounds)} bounds" * bool(bounds)


def cell_rows(ledgers: Mapping[str, Mapping[str, EnergyCell]], tokens: int) -> list[dict[str, str]]:
    """A row for each cell that a system knows, for each figure of several cells, and for the sum [mJ per token].
    Columns: `cell` and each system."""
    several = list(dict.fromkeys(key for ledger in ledgers.values() for key in ledger if key not in CELLS))
    letters = dict(zip(several, ascii_lowercase, strict=False))
    unknown = unknown_on_all(ledgers)
    rows = [
        {"cell": cell} | {name: _text(ledger[cell], letters, tokens) for name, ledger in ledgers.items()}
        for cell in CELLS
        if cell not in unknown
    ]
    rows += [
        {"cell": f"{letters[key]}: {_short(key)}"}
        | {name: _text(ledger[key], {}, tokens) if key in ledger else "" for name, ledger in ledgers.items()}
        for key in several
    ]
    sums = {name: sum_text(ledger, ledger_j(ledger) / tokens) for name, ledger in ledgers.items()}
    return [*rows, {"cell": SUM} | sums]


def power_text(one: "Compared") -> str | None:
    """Power [W] with the sign of the energy that it is made from."""
    return None if one.power_w is None else sum_sign(one.energy_by_cell or {}) + figure(one.power_w, DIGITS)


def per_watt_text(one: "Compared") -> str | None:
    """Tokens/s per W: at least what a power gives that is at most, and the other way round."""
    if (rate := (one.tokens_per_s_by_size or {}).get("w")) is None:
        return None
    sign = sum_sign(one.energy_by_cell or {})
    return INVERSE.get(sign, sign) + figure(rate, DIGITS)


def sum_text(ledger: Mapping[str, EnergyCell], joules: float) -> str:
    """A sum [mJ] with its sign."""
    return sum_sign(ledger) + figure(joules / J_PER_MJ, SUM_DIGITS)


def sum_sign(ledger: Mapping[str, EnergyCell], *, rest_known: bool = True) -> str:
    """The sign of a sum that is a bound, because a figure is a bound, or a cell other than the host's or energy at rest
    is unknown: `≤ `, `≥ `, or `~ ` for bounds of both directions."""
    bounds = sum_bounds(ledger, rest_known=rest_known)
    return SIGNS[next(iter(bounds))] if len(bounds) == 1 else "~ " if bounds else ""


def source_rows(ledgers: Mapping[str, Mapping[str, EnergyCell]]) -> list[dict[str, str | None]]:
    """Rows with the source of each figure."""
    return [
        {
            "system": name,
            "cell": key,
            "source": cell.source,
            "where": cell.where,
            "without": ", ".join(cell.without) or None,
            "bound": cell.bound if cell.bound != "estimate" else None,
        }
        for name, ledger in ledgers.items()
        for key, cell in ledger.items()
        if cell.j is not None and cell.source != NONE
    ]


def _text(cell: EnergyCell, letters: Mapping[str, str], tokens: int) -> str:
    within = [letters[key] for key in cell.within]
    if cell.j is None:
        return ", ".join(within) or "–"
    own = f"{SIGNS.get(cell.bound or '', '')}{figure(cell.j / tokens / J_PER_MJ, 4)} {cell.source}"
    return " + ".join([own, *within])


def _short(key: str) -> str:
    """
    >>> _short("dynamic compute + static compute")
    'dynamic and static compute'
    """
    by = dict[str, list[str]]()
    for cell in key.split(" + "):
        state, _, part = cell.partition(" ")
        by.setdefault(part, []).append(state)
    if "" in by or "device" in by:
        return key
    states = dict[str, list[str]]()
    for part, some in by.items():
        states.setdefault(" and ".join(some), []).append(part)
    return "; ".join(f"{some} {', '.join(parts)}" for some, parts in states.items())
