"""All that `pimloom fabric mfu` finds."""

from pathlib import Path
from typing import Any

from pimloom.arch.fabric_cost import Hbd
from pimloom.arch.version import __version__
from pimloom.systems.fabric.mfu import BASELINE, Search, mfu_rows, trend
from pimloom.systems.fabric.sensitivity import sensitivity_rows


def mfu_values(search: Search, gpu: str, hbds: list[Hbd], counts: list[int], sensitivity: bool) -> dict[str, Any]:
    """Rows by fabric and number of GPUs, their trends, and what was searched; or rows of the sensitivity of the
    ratio to the baseline. Fields as in docs/fabric.md. gpu: its name, or the path of its YAML."""
    about = {
        "model": search.model.name,
        "gpu": Path(gpu).stem,
        "batch": search.batch,
        "schedule": search.schedule,
        "interleave": search.most_chunks,
        "sequence_tokens": search.training.recipe.sequence_tokens,
        "version": __version__,
    }
    baseline = next((hbd for hbd in hbds if hbd.arch == BASELINE), None)
    if sensitivity:
        ours = next((hbd for hbd in hbds if hbd.arch != BASELINE), None)
        rows = [row for count in counts for row in sensitivity_rows(search, count, ours, baseline)]
        return {"rows": rows, **about}
    rows = mfu_rows(search, hbds, counts, baseline)
    return {"rows": rows, "trend": {hbd.arch: trend(rows, hbd.arch) for hbd in hbds}, **about}
