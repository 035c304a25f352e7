"""Study `infinitehbd`: optical rings of GPUs under faults, their placement, cost and MFU, beside published values."""

from pathlib import Path

from pimloom.arch.error import GateError
from pimloom.arch.files import prepare_folder, together, write_atomic, write_json, write_table_csv
from pimloom.arch.version import __version__
from pimloom.reports.infinitehbd import economics_section, optics_section, rings_section, waste_section
from pimloom.reports.infinitehbd.checks import reproduction_rows
from pimloom.reports.infinitehbd.findings import CLUSTER, Findings, Scope, find_all
from pimloom.reports.page import Card, Claim, ClaimLine, Page, render
from pimloom.reports.reproduction import (
    PREDICTED,
    Progress,
    against_paper,
    assumptions,
    claim,
    passed_cards,
    reproduction_section,
)
from pimloom.systems.fabric.faults.trace import SERVERS

TITLE = "InfiniteHBD: a reproduction"


def run_study(
    out: str | Path,
    progress: Progress = lambda done, total: None,
    *,
    faults: Path | None = None,
    servers: int = SERVERS,
    scope: Scope | None = None,
) -> Path:
    """Compute everything and write `index.html`, `results.json` and a CSV per kind of row into folder `out`.

    faults: a trace of `servers` in the public format, else a synthetic one like it. Returns the page. Raises UserError
    for a bad trace or a folder that cannot be written, and GateError, when all is written, if a hard gate fails.
    """
    folder = prepare_folder(out)
    found = find_all(faults, scope or Scope(), progress, servers)
    checks = reproduction_rows(found)
    page = render(build_page(found, checks))
    tables = {
        "waste_trace": found.trace_rows,
        "waste_iid": found.iid_rows,
        "cross_tor": found.traffic,
        "cost": found.cost,
        "mfu": found.mfu,
        "sensitivity": found.sensitivity,
    }
    with together():
        for name, rows in tables.items():
            write_table_csv(folder / f"{name}.csv", rows)
        write_json(folder / "results.json", {"checks": checks, "trace": found.statistics, **tables})
        write_atomic(folder / "index.html", page)
    if failed := [str(check["check"]) for check in checks if check["verdict"] == "FAIL"]:
        raise GateError(f"a hard gate does not hold: {', '.join(failed)}; see {folder / 'index.html'}")
    return folder / "index.html"


def build_page(found: Findings, checks: list[dict[str, object]]) -> Page:
    """The whole report."""
    mine, nvl = (found.waste(name)["waste_ratio_mean"] for name in ("infinitehbd-k2", "nvl72"))
    cost = next(row for row in found.cost if row["arch"] == "infinitehbd-k2")
    most = max(found.scope.gpus)
    cards = [
        *passed_cards(checks, against_paper),
        Card("Waste, TP-32", f"{100 * mine:.2f}", "%", f"K = 2 on {found.trace.name}; NVL-72 {100 * nvl:.2f} %"),
        Card("Price of a GB/s", f"{100 * cost['ratio_to_nvl72']:.1f}", "% of NVL-72's", "K = 2, network only; fitted"),
        Card("MFU over DGX", f"{found.ratio(most) or 0:.2f}", "×", _of_mfu(found, most)),
    ]
    return Page(
        TITLE,
        "Datacentre-scale high-bandwidth domains of optical-circuit-switching transceivers (arXiv 2502.03885, SIGCOMM "
        "2025): a reconfigurable K-hop ring beside its baselines.",
        [
            reproduction_section(INTRODUCTION, checks, "class and tolerance", note=" pp: percentage points."),
            waste_section.faults(found),
            waste_section.waste(found),
            rings_section.rings(),
            rings_section.traffic(found),
            economics_section.cost(found),
            economics_section.mfu(found),
            optics_section.transceiver(),
            assumptions(Path(__file__).parent),
        ],
        cards,
        {
            "pimloom": __version__,
            "cluster": f"{CLUSTER.gpus:,} GPUs in nodes of {CLUSTER.gpus_per_node}",
            "trace": found.trace.name,
            "seed": "0",
            "made by": "pimloom report infinitehbd" + ("" if found.synthetic else f" --faults {found.trace.name}"),
        },
        headline(checks),
    )


def _of_mfu(found: Findings, most: int) -> str:
    """The conditions of the ratio, and the ratio at fewer GPUs."""
    fewer = [f"{found.ratio(gpus):.2f} at {gpus:,}" for gpus in found.scope.gpus if gpus == FEWER and found.ratio(gpus)]
    return "; ".join([f"{most:,} GPUs, 2,048 sequences a step, 1F1B", *fewer])


def headline(checks: list[dict[str, object]]) -> Claim:
    """The three figures of the abstract, as the table of checks has them."""
    rows = [next(row for row in checks if row["id"] == id) for id in HEADLINE]
    lines = [ClaimLine(*(str(row[key]) for key in ("check", "ours", "published", "unit", "basis"))) for row in rows]
    held = [None if row["verdict"] == "report only" else row["verdict"] == "pass" for row in rows]
    judged = [(row, ok) for row, ok in zip(rows, held, strict=True) if row["basis"] == PREDICTED]
    outside = " and ".join(str(row["check"]) for row, ok in judged if ok is False)
    why = [f"outside the tolerance: {outside}"] * bool(outside)
    why += [ANOTHER_TRACE] * any(ok is None for _, ok in judged)
    said = "; ".join(why)
    return claim(lines, held, f"{WITHIN} {NOT_JUDGED}", f"{said[:1].upper()}{said[1:]}. {NOT_JUDGED}")


WITHIN = "Waste and MFU lie within the tolerances of the table below."
NOT_JUDGED = (
    "The cost is fitted: three of our prices were solved from the paper's totals. The MFU ratio is that of 131,072 "
    "GPUs and our recipe; fewer GPUs gain less, as the curves show."
)
ANOTHER_TRACE = "waste is not judged, as its trace is not the public one, which --faults takes"
HEADLINE, FEWER = ("waste_ratio", "cost_ratio", "mfu_ratio"), 16_384
INTRODUCTION = (
    "Hard gates must hold; soft checks compare with published values within a tolerance that the specification fixed; "
    "the rest is reported without a verdict. Evidence says how the published value is known: read in the paper (its "
    "abstract), in a third party's text, recalled, or derived by arithmetic. The paper's body was not available: "
    "nothing recalled may be quoted as the paper's."
)
