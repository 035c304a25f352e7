"""What studies of a paper share: the table of checks, the assumptions, counting simulations, the files of results."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pimloom.reports.files import write_atomic, write_json, write_table_csv
from pimloom.reports.page import Card, Column, Page, Section, TableData, render

Progress = Callable[[int, int], None]
Rows = Sequence[Mapping[str, object]]


def counting(total: int, progress: Progress) -> Callable[[], None]:
    """What to call after each of `total` simulations, so that `progress(done, total)` hears of it."""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    return count


def write_study(
    folder: Path, page: Page, points: Rows, results: Rows, checks: Rows, more: Mapping[str, str] | None = None
) -> Path:
    """Write `results.csv` (flat points), `results.json` (results, checks), `more` files and `index.html`, which it
    returns."""
    html = render(page)
    write_table_csv(folder / "results.csv", points)
    write_json(folder / "results.json", {"results": results, "checks": checks})
    for name, text in (more or {}).items():
        write_atomic(folder / name, text)
    write_atomic(folder / "index.html", html)
    return folder / "index.html"


def passed_card(checks: Rows, note: str) -> Card:
    """How many of the checks with a verdict passed."""
    known = [check["verdict"] for check in checks if check["verdict"] != "report only"]
    return Card("Checks passed", f"{known.count('pass')} of {len(known)}", "", note)


def reproduction_section(intro: str, checks: Rows, tolerance: str, *more: Column, note: str = "") -> Section:
    """Our value, the published value, the deviation and the verdict. tolerance: heading of its column."""
    table = TableData(
        "Our values beside the published ones",
        [
            Column("check", "check"),
            Column("verdict", "verdict", verdict=True),
            Column("ours", "ours", align="right"),
            Column("published", "published", align="right"),
            Column("unit", "unit"),
            Column("deviation", "deviation", "%", format="+.1f"),
            Column("tolerance", tolerance),
            *more,
            Column("tag", "evidence"),
        ],
        checks,
        "Deviation: how far our value, or the worse end of our range, lies outside the published value or range."
        + note,
    )
    return Section("Reproduction", "reproduction", intro, [table])


def assumptions(folder: Path) -> Section:
    """The ASSUMPTIONS.md of a study: its paragraphs, and its table of gaps and choices."""
    text = (folder / "ASSUMPTIONS.md").read_text(encoding="utf-8")
    cells = [line.strip("| \n").split(" | ") for line in text.replace("`", "").splitlines() if line.startswith("| ")]
    rows: Rows = [{"gap": gap, "choice": choice} for gap, choice in cells[1:]]
    prose = [p.replace("\n", " ") for p in text.split("\n\n") if not p.startswith(("#", "|"))]
    where = f"The text of `reports/{folder.name}/ASSUMPTIONS.md`."
    table = TableData("Where the paper is silent", [Column("gap", "gap"), Column("choice", "what we do")], rows, where)
    return Section("Assumptions", "assumptions", "\n\n".join(prose), [table])
