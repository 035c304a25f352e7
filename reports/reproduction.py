"""What studies of a paper share: the table of checks, the assumptions, counting simulations, the files of results."""

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pimloom.arch.error import GateError
from pimloom.arch.files import together, write_atomic, write_json, write_table_csv
from pimloom.reports.page import Card, Claim, ClaimLine, Column, Page, Section, TableData, render

Progress = Callable[[int, int], None]
BASES = {  # what a check is; only predictions are counted
    "predicted": "the result of a simulation that does not use the published value",
    "derived": "it follows from inputs by arithmetic, or holds by construction",
    "fitted": "an input, a count or a definition was chosen or solved with the published value known",
    "echoed": "the published value is an input, or our constant is that of the authors",
}
PREDICTED = "predicted"
Rows = Sequence[Mapping[str, object]]


def counting(total: int, progress: Progress) -> Callable[[], None]:
    """What to call after each of `total` simulations, so that `progress(done, total)` hears of it."""
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    return count


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    """A CSV file of a study."""
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def compared(
    what: str,
    ours: float,
    theirs: float,
    unit: str,
    tolerance: float,
    said: str,
    miss: str,
    tag: str,
    digits: str = ",.6g",
    *,
    basis: str,
) -> dict[str, object]:
    """A check of a value within a relative tolerance, printed as `said`. miss: the verdict outside the tolerance;
    basis: one of BASES."""
    off = ours / theirs - 1
    return {
        "check": what, "verdict": "pass" if abs(off) <= tolerance else miss, "ours": f"{ours:{digits}}",
        "published": f"{theirs:{digits}}", "unit": unit, "deviation": 100 * off, "tolerance": said, "tag": tag,
        "basis": basis,
    }  # fmt: skip


def gated(written: Path, checks: Rows) -> Path:
    """The page. Raises GateError, as all is written, if a hard gate does not hold."""
    if broken := [str(check["check"]) for check in checks if check["verdict"] == "FAIL"]:
        raise GateError(f"hard gates that do not hold: {', '.join(broken)}; see {written}")
    return written


def write_study(
    folder: Path, page: Page, points: Rows, results: Rows, checks: Rows, more: Mapping[str, str] | None = None
) -> Path:
    """Write `results.csv` (flat points), `results.json` (results, checks), `more` files and `index.html`, which it
    returns."""
    with together():
        write_table_csv(folder / "results.csv", points)
        write_json(folder / "results.json", {"results": results, "checks": checks})
        for name, text in (more or {}).items():
            write_atomic(folder / name, text)
        write_atomic(folder / "index.html", render(page))
    return folder / "index.html"


def passed_cards(checks: Rows, against: Callable[[Mapping[str, object]], str]) -> list[Card]:
    """Cards with the number of judged predictions that passed, one for each kind of reference. Derived, fitted and
    echoed checks can hardly miss, and are not counted. Raises KeyError for a check without a basis."""
    found: dict[str, list[object]] = {}
    others = Counter(str(check["basis"]) for check in checks if check["basis"] != PREDICTED)
    for check in checks:
        if check["basis"] == PREDICTED:
            found.setdefault(against(check), []).append(check["verdict"])
    cards = [_card(what, words) for what, words in found.items() if set(words) != {"report only"}]
    said = ", ".join(f"{others[basis]} {basis}" for basis in BASES if others[basis])
    return [*cards[:-1], *(card._replace(note="; ".join(filter(None, (card.note, said and f"not counted: {said}"))))
                           for card in cards[-1:])]  # fmt: skip


def _card(what: str, words: Sequence[object]) -> Card:
    passed, judged = words.count("pass"), len(words) - words.count("report only")
    notes = ["the others deviate and are shown"] * (passed < judged)
    notes += [f"{len(words) - judged} more are shown without a verdict"] * (judged < len(words))
    return Card(f"Predictions against {what}", f"{passed} of {judged}", "", "; ".join(notes))


def against_paper(check: Mapping[str, object]) -> str:
    """What checks of a paper compare with."""
    return "the paper"


def claim(lines: Sequence[ClaimLine], held: Sequence[bool | None], reproduced: str, why: str) -> Claim:
    """A headline claim: reproduced if all its predictions are, missed if one of them is off. held: for each line
    whether it is reproduced, None: not judged. Lines that are not predicted are shown and not judged.

    reproduced, why: the sentence that says why it is, or why not.
    """
    judged = [each for line, each in zip(lines, held, strict=True) if line.basis == PREDICTED]
    met = bool(judged) and all(each is True for each in judged)
    return Claim(lines, met, reproduced if met else why, missed=False in judged)


def reproduction_section(intro: str, checks: Rows, tolerance: str, *more: Column, note: str = "") -> Section:
    """The table of checks: our value, the published value, the deviation, the verdict. tolerance: heading of its
    column. Raises ValueError for a check whose basis is not one of BASES."""
    if without := [check["check"] for check in checks if check.get("basis") not in BASES]:
        raise ValueError(f"checks without a basis, one of {', '.join(BASES)}: {without}")
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
            Column("basis", "basis"),
            Column("tag", "evidence"),
        ],
        checks,
        "Deviation: how far our value, or the worse end of our range, lies outside the published value or range."
        + note
        + " Basis: "
        + "; ".join(f"{basis}, {meaning}" for basis, meaning in BASES.items())
        + ".",
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
