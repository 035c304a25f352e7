"""What a person reads after `pimloom fabric place`."""

from collections.abc import Mapping
from typing import Any

from pimloom.reports.fabric.place_text import text_lines
from pimloom.reports.terminal.tables import show_line, show_rows
from pimloom.systems.fabric.place import CROSS_TOR, Placed

COLUMNS = (("what", "", ""), ("value", "value|r", ""), ("note", "", ""))
MOST_COMPLAINTS = 5


def show_placed(placed: Placed, found: Mapping[str, Any], optimum: bool) -> None:
    """A drawing in characters, a table, the metric in a sentence, and the verdict."""
    for line in text_lines(placed):
        show_line(line)
    lines = _lines(found) + (_optimum(found) if optimum else [])
    show_rows(COLUMNS, [dict(zip(("what", "value", "note"), line, strict=True)) for line in lines])
    show_line(CROSS_TOR)
    if found["holds"]:
        show_line(f"verifier: holds; {found['groups']} rings, each one cycle over live paths")
    for said in found["complaints"][:MOST_COMPLAINTS]:
        show_line(f"verifier: {said}")


def _lines(r: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    over = ", ".join(f"{count} over {length}" for length, count in r["bypasses_by_length"].items())
    blocks = "" if r["constrained_blocks"] is None else f", {r['constrained_blocks']} blocks constrained"
    return [
        ("nodes", f"{r['nodes']:,}", f"of {r['gpus_per_node']} GPUs, {r['faulty_nodes']} faulty, {r['arch']}"),
        (
            "groups",
            f"{r['groups']:,}",
            f"of {r['tp']} GPUs, {r['job_gpus']:,} in all; algorithm {r['algorithm']}{blocks}",
        ),
        ("  that fit", f"{r['groups_that_fit']:,}", "at most, along the ring"),
        ("  aligned", f"{r['aligned_groups']:,}", f"a row of a block of {r['group_nodes']} ToRs"),
        ("  with a twin", f"{r['twin_groups']:,}", "another group spans the same ToRs"),
        ("wasted nodes", f"{r['wasted_nodes']:,}", f"{r['waste_ratio']:.2%} of all; no further group fits on them"),
        ("idle nodes", f"{r['idle_nodes']:,}", "healthy, not in the job"),
        ("bypasses", f"{sum(r['bypasses_by_length'].values()):,}", f"nodes left out at once: {over}"),
        ("cuts", f"{r['cuts']:,}", "runs of faulty nodes too long to bypass"),
        ("corner cases", f"{r['corner_cases']:,}", "nodes that need one bundle for both sides"),
        (
            "cross-ToR share",
            f"{r['cross_tor_share']:.2%}",
            f"{r['cross_tor_crossing']:,} of {r['cross_tor_pairs']:,} pairs",
        ),
        ("  on one chain", f"{r['cross_tor_share_in_order']:.2%}", "all groups in order, beyond what no order avoids"),
        (
            "  of all traffic",
            f"{r['cross_tor_share_of_traffic']:.2%}",
            f"{r['dcn_share']:.0%} of it runs between groups",
        ),
    ]


def _optimum(r: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    gap = r["optimum_gap_groups"]
    return [("optimum", f"{r['optimum_groups']:,}", f"groups fit, {gap} more than found; by {r['optimum_proved_by']}")]
