"""The reproduction table: our value beside the published one, the deviation and the verdict."""

from collections.abc import Sequence
from pathlib import Path

from pimloom.arch.optics import load_optics
from pimloom.reports.infinitehbd.findings import CLUSTER, TP, Findings, totals
from pimloom.reports.infinitehbd.optics_section import LARGE, PART, RINGS, ring_of, share_of_rate
from pimloom.reports.infinitehbd.properties import idle_waste
from pimloom.reports.published import Published, read_published, span
from pimloom.systems.fabric.faults.replay import conversion_factor
from pimloom.systems.fabric.mfu import trend

HARD, SOFT, REPORT = "hard gate", "soft", "report only"
PP = "pp"
PUBLISHED_P = 0.0167  # [recalled] the fault ratio behind the published conversion factor
Rows = list[dict[str, object]]


def published() -> dict[str, Published]:
    """All lines of paper.csv by id."""
    return read_published(Path(__file__).parent)


def reproduction_rows(found: Findings) -> Rows:
    """One dict per check, in the order of paper.csv."""
    paper = published()
    rows = [*_trace(found), *_waste(found), *_rings(found), *_cost(found), *_mfu(found), *_traffic(found), *_links()]
    for row in rows:
        line, compare = paper[str(row["id"])], row.pop("compare")
        assert isinstance(compare, list)
        row["deviation"] = line.deviation(compare) if compare and (line.low or line.high) else None
        row |= {"tag": line.tag, "published": line.text, "unit": line.unit, "check": line.quantity}
        row["basis"] = line.basis
    order = list(paper)
    return sorted(rows, key=lambda row: order.index(str(row["id"])))


def _row(
    id: str, values: Sequence[float], kind: str, need: str, ok: bool | None, pattern: str = ".2f", ours: str = ""
) -> dict[str, object]:
    verdict = "report only" if ok is None else "pass" if ok else "FAIL" if kind == HARD else "deviates"
    tolerance = kind if ok is None and kind == REPORT else f"{kind}: {need}"
    known: dict[str, object] = {"id": id, "ours": ours or span(values, pattern), "compare": list(values)}
    return known | {"tolerance": tolerance, "verdict": verdict}


def _near(id: str, value: float, kind: str, tolerance: float, known: bool = True, pattern: str = ".2f") -> dict:
    """Within so many percentage points of the published value; without a verdict on another trace than the paper's."""
    low = published()[id].low
    assert low is not None
    ok = abs(value - low) <= tolerance + 1e-9 if known else None
    need = f"± {tolerance:g} {PP}" + ("" if known else "; not judged: another trace")
    return _row(id, [value], kind, need, ok, pattern)


def _trace(found: Findings) -> Rows:
    """Checks 1 to 3."""
    p50, p99 = (100 * ratio for ratio in found.percentiles)
    ours = 100 * conversion_factor(PUBLISHED_P)
    low = published()["conversion"].low
    return [
        _near("trace_mean", 100 * found.statistics.fault_ratio_mean, HARD, 0.05, found.public),
        _near("trace_p50", p50, HARD, 0.35, found.public),
        _near("trace_p99", p99, HARD, 0.9, found.public),
        _row("conversion", [ours], HARD, "printed digits", round(ours, 2) == low),
    ]


def _waste(found: Findings) -> Rows:
    """Checks 4 to 8 and 17."""
    mine, nvl, tpu = (
        100 * found.waste(name)["waste_ratio_mean"] for name in ("infinitehbd-k2", "nvl72", "tpuv4-slices")
    )
    wait = max(100 * found.waste(f"infinitehbd-k{k}")["job_wait_ratio"] for k in (2, 3))
    idle = [100 * waste for waste in idle_waste()]
    over = [nvl / mine, tpu / mine]
    known = found.public
    return [
        _near("waste_infinitehbd", mine, SOFT, 0.1, known),
        _near("waste_nvl72", nvl, SOFT, 0.3, known),
        _near("waste_tpuv4", tpu, SOFT, 0.8, known),
        _row("waste_ratio", over, SOFT, "both above 10", min(over) > 10 if known else None, ".1f"),
        _row("nvl_remainder", idle, HARD, "exact", all(abs(waste - 100 / 9) < 1e-9 for waste in idle)),
        _row("job_wait", [wait], HARD, "exact", wait == 0 if known else None),
    ]


def _rings(found: Findings) -> Rows:
    """Checks 9, 10 and 13."""
    over = [ours / expected for ours, expected in found.breaks]
    far, joined = found.bypasses, found.one_ring
    return [
        _row("bypass", [], HARD, "every run on 64 nodes, K = 2 and 3", far, ours="holds" if far else "does not hold"),
        _row("one_ring", [], HARD, "verified", joined, ours="holds" if joined else "does not hold"),
        _row("break_rate", over, HARD, "± 10 %, Monte-Carlo", all(abs(each - 1) <= 0.1 for each in over), ".3f"),
    ]


def _cost(found: Findings) -> Rows:
    """Checks 11 and 12."""
    rows = {row["arch"]: row for row in found.cost}
    share = 100 * rows["infinitehbd-k2"]["ratio_to_nvl72"]
    off = [
        100 * abs(ours / theirs - 1)
        for name, pair in totals().items()
        for ours, theirs in zip((rows[name]["usd_per_gpu"], rows[name]["w_per_gpu"]), pair, strict=True)
    ]
    ours = f"within {max(off):.3f} %"
    return [
        _near("cost_ratio", share, HARD, 0.5, pattern=".1f"),
        _row("cost_table", [], HARD, "0.1 % each", max(off) <= 0.1, ours=ours),
    ]


def _mfu(found: Findings) -> Rows:
    """Checks 14 and 15."""
    mine = [row for row in found.mfu if row["arch"] == "infinitehbd-k2"]
    ratios, sizes = [row["ratio_to_dgx8"] for row in mine], [row["tp"] for row in mine]
    low = published()["mfu_ratio"].low
    assert low is not None
    how = trend(found.mfu, "infinitehbd-k2")
    fall = 100 * how["ratio_largest_fall"]
    text = "holds" if how["ratio_never_falls"] and how["tp_rises"] else f"falls by {fall:.2f} %" if fall else "TP falls"
    job = f"{mine[-1]['batch']:,} sequences a step, {mine[-1]['schedule']}"
    seen = f"neither may fall (ratio {ratios[0]:.2f} to {ratios[-1]:.2f}, TP {sizes[0]} to {sizes[-1]}); {job}"
    near = abs(ratios[-1] / low - 1) <= 0.15
    return [
        _row("mfu_ratio", [ratios[-1]], SOFT, f"± 15 %, {job}", near),
        _row("mfu_trend", [], SOFT, seen, text == "holds", ours=text),
    ]


def _traffic(found: Findings) -> Rows:
    """Check 16, which has no tolerance: TP-32, 85 % of the nodes, up to 7 % faulty."""
    ours = [
        100 * row["cross_tor_mean"]
        for row in found.traffic
        if (row["group_nodes"], row["job_ratio"], row["algorithm"]) == (TP // CLUSTER.gpus_per_node, 0.85, "spares")
        and row["fault_ratio"] <= 0.07
        and row["cross_tor_mean"] is not None
    ]
    return [_row("cross_tor", ours, REPORT, "", None, ".1f")]


def _links() -> Rows:
    """The testbed's bandwidth, which cannot be run again: context only."""
    part = load_optics(PART).value
    ours = [100 * share_of_rate(ring_of(part, gpus), LARGE) for gpus in RINGS]
    return [_row("ring_bandwidth", ours, REPORT, "", None, ".1f")]
