"""The first page of the study: the answer, drawn and in tables."""

from collections.abc import Sequence

from pimloom.arch.name_units import counted
from pimloom.reports.figures import lines
from pimloom.reports.page import Card, Column, Figure, Section, TableData
from pimloom.reports.serving.machines import BATCH_TOKENS, MODEL, MOST_COPIES, SLO, Crossing, Line, Point, winner

TOKENS = 10**6  # whose price is told
LOWER = ("≥ ", "~ ")
WHAT = {"j": "per joule", "usd": "per dollar"}
INTRO = (
    f"The first 200 requests of the Azure conversation trace of 2023, {MODEL}, vLLM v1's rules with {BATCH_TOKENS} "
    "tokens in an iteration (v0's where prompts and decode go in steps of their own); "
    "their times are scaled to each load, and they repeat until the run is "
    "steady. A machine is a candidate if its backlog does not grow and 90 % of the requests between warm-up and end "
    f"hold `{SLO}`; it gets 1, 2, 4 … {MOST_COPIES} copies until they do. Energy is that of all copies from the first "
    "arrival to the last token, at rest, too; a token's price is that of all copies for that time.\n\n"
    "GPUs count their TDP while they work: upper bounds (≤). All others count what their parts and arithmetic take: "
    "lower bounds (≥) where a part has no figure. Prices of machines that nobody sells are assumed: yours go into "
    "`pimloom serve --price`."
)
WINNERS = (
    Column("load", "load", "requests/s", format="g"), Column("j_by", "least energy"), Column("j_copies", "copies"),
    Column("j", "energy of an output token", "J"), Column("j_bound", "bound"),
    Column("j_next", "the next one needs", "times as much"),
    Column("usd_by", "least price"), Column("usd_copies", "copies"),
    Column("usd", "price of a million output tokens", "$"), Column("usd_next", "the next one costs", "times as much"),
)  # fmt: skip
POINTS = (
    Column("machine", "machine"), Column("load", "load", "requests/s", format="g"), Column("copies", "copies"),
    Column("backlog", "backlog"),
    Column("held", "hold the limits", "%", format=".1f"), Column("ttft", "time to first token, p90", "s"),
    Column("tpot", "time per output token, p90", "ms"), Column("j", "energy of an output token", "J"),
    Column("bound", "bound"),
    Column("rest", "of it at rest", "%", format=".0f"), Column("usd", "price of a million output tokens", "$"),
    Column("busy", "busy", "%", format=".0f"),
)  # fmt: skip


def answer(found: Sequence[Line], points: Sequence[Point], changes: Sequence[Crossing]) -> Section:
    """The section."""
    loads = sorted({point.load for point in points})
    rows = [row for load in loads if (row := _winners(load, points)) is not None]
    blocks: list[Figure | TableData] = [
        _figure("Energy of an output token over load", points, "j", 1.0, "energy [J]"),
        TableData("Who serves the trace best", WINNERS, rows, "Of machines that hold the limits, with their copies."),
        _changes(changes),
        _figure("Price of an output token over load", points, "usd", TOKENS, "price of a million tokens [$]"),
        TableData("Every machine at every load", POINTS, [_flat(point) for point in points], ALL),
        _machines(found),
    ]
    return Section("Which machine", "which-machine", "\n\n".join([said(points, changes), INTRO]), blocks)


ALL = "p90 over requests. Copies share the requests in turn. One copy where the limits are never held."


def said(points: Sequence[Point], changes: Sequence[Crossing]) -> str:
    """The answer in a few sentences."""
    loads, found = sorted({point.load for point in points}), list[str]()
    for what, name in WHAT.items():
        first = next((best for load in loads if (best := winner(_at(load, points), what)) is not None), None)
        if first is None:
            found.append(f"Best {name}: none holds the limits at any load.")
            continue
        mine = [change for change in changes if change.what == what]
        then = "".join(f"; between {one.low:g} and {one.high:g} requests/s {one.behind} takes over" for one in mine)
        found.append(
            f"Best {name} at {first.load:g} requests/s is {first.machine}{then or ', and at all higher loads'}."
        )
        if what == "j":
            found += _open(points)
    able = {point.machine for point in points if point.holds}
    if never := [name for name in dict.fromkeys(point.machine for point in points) if name not in able]:
        found.append(f"At no load the limits are held by {' or '.join(never)}.")
    return " ".join(found)


def _open(points: Sequence[Point]) -> list[str]:
    """A sentence that names the winners per joule whose energy is a lower bound; none if there are none."""
    best = [one for load in sorted({point.load for point in points}) if (one := winner(_at(load, points), "j"))]
    lower = list(dict.fromkeys(one.machine for one in best if one.sign in LOWER))
    said = f"The energy of {' and '.join(lower)} is a lower bound: where it is the least, the order is open."
    return [said] if lower else []


def cards(points: Sequence[Point]) -> list[Card]:
    """Winners at the least and the highest load, with their sizes."""
    loads, found = sorted({point.load for point in points}), list[Card]()
    for load in dict.fromkeys((*loads[:1], *loads[-1:])):
        for what, name in WHAT.items():
            best = winner(_at(load, points), what)
            if best is not None:
                value = f"{best.usd * TOKENS:,.3g} $ a million tokens"
                if what == "j":
                    value = f"{best.sign}{best.j:,.3g} J a token"
                found.append(Card(f"Best {name} at {load:g}/s", best.machine, "", f"{value}; {_size(best)}"))
    return found


def _size(point: Point) -> str:
    """Copies and devices as text.

    >>> _size(Point("duplex", 1.0, 2, "steady", 1.0, 0.1, 0.01, 1.0, 1e-6, 0.0, 1.0, 4, "≥ "))
    '2 copies of 4 devices'
    """
    return (f"{point.copies} copies of " if point.copies > 1 else "") + counted(point.devices, "device")


def _at(load: float, points: Sequence[Point]) -> list[Point]:
    return [point for point in points if point.load == load]


def _winners(load: float, points: Sequence[Point]) -> dict[str, object] | None:
    row: dict[str, object] = {"load": load}
    for what, factor in (("j", 1.0), ("usd", float(TOKENS))):
        able = sorted((p for p in _at(load, points) if p.holds), key=lambda p: float(getattr(p, what)))
        if not able:
            return None
        best = getattr(able[0], what)
        if what == "j":
            row["j_bound"] = able[0].sign.strip() or None
        row |= {f"{what}_by": able[0].machine, f"{what}_copies": able[0].copies, what: best * factor}
        row[f"{what}_next"] = getattr(able[1], what) / best if len(able) > 1 else None
    return row


def _changes(changes: Sequence[Crossing]) -> TableData:
    rows = [one._asdict() | {"what": WHAT[one.what]} for one in changes]
    columns = (Column("what", "best"), Column("low", "from", "requests/s", format="g"), Column("before", "machine"),
               Column("high", "to", "requests/s", format="g"), Column("behind", "machine"))  # fmt: skip
    return TableData("Where the answer changes", columns, rows, "Between neighbours of the loads that were served.")


def _flat(point: Point) -> dict[str, object]:
    return {
        "machine": point.machine, "load": point.load, "copies": point.copies, "backlog": point.backlog,
        "held": 100 * point.held,
        "ttft": point.ttft_p90_s, "tpot": 1000 * point.tpot_p90_s, "j": point.j,
        "bound": point.sign.strip() or None, "rest": 100 * point.rest,
        "usd": point.usd * TOKENS, "busy": 100 * point.busy,
    }  # fmt: skip


def _figure(title: str, points: Sequence[Point], what: str, factor: float, ylabel: str) -> Figure:
    series: dict[str, list[tuple[float, float]]] = {}
    for name in dict.fromkeys(point.machine for point in points):
        mine = [point for point in points if point.machine == name]
        label = name if any(point.holds for point in mine) else f"{name} (limits not held)"
        series[label] = [(point.load, factor * float(getattr(point, what))) for point in mine]
    return lines(title, series, xlabel="load [requests/s]", ylabel=ylabel, caption="With the copies of the table.",
                 log_x=True, log_y=True)  # fmt: skip


def _machines(found: Sequence[Line]) -> TableData:
    columns = (Column("system", "machine"), Column("devices", "devices"), Column("set", "set"),
               Column("scheduler", "scheduler"),
               Column("usd", "price of a device", "$/h"), Column("tag", "evidence"), Column("source", "its source"),
               Column("rest", "at rest, all devices", "W"), Column("why", "its source"))  # fmt: skip
    rows = [
        {"system": one.machine.system, "devices": one.machine.devices, "set": " ".join(one.machine.settings) or "–",
         "scheduler": one.machine.scheduler,
         "usd": one.machine.usd_per_h, "tag": one.machine.tag, "source": one.machine.source, "rest": one.rest_w,
         "why": one.machine.rest_source or "as the system has it"}
        for one in found
    ]  # fmt: skip
    return TableData("Machines, prices and power at rest", columns, rows, "Each copy has so many devices.")
