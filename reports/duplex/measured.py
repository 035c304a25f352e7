"""What the simulator of Duplex's authors was measured to give, and the rows of ours that stand beside it.

S = HeliosZhou/LLMSimulator@f71dde4, run by this project [derived R]; paper = Yun et al., MICRO 2024.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pimloom.arch.duplex import load_duplex
from pimloom.reports import reproduction
from pimloom.reports.duplex.grid import GRID, GridPoint, GridRow, decode_grid
from pimloom.systems.pool import run_all

HERE = Path(__file__).parent
OF_S = {
    "xpu_gb_s": "3352",  # of its estimates
    "part.timing.tRFC": "450 ns",  # its organisation, HBM3_16Gb_2R
    "part.timing.tFAW_R": "39 nCK",  # nFAW of its HBM3 holds in the pseudo channel, not in the rank
    "part.one_bus": "true",  # its controller issues one command a clock
}
TOLERANCES = {"throughput": 0.1, "energy": 0.05, "step": 0.1}  # [design] of ratios to the GPU
BASE = "GPU"


def rows_of(name: str) -> list[dict[str, str]]:
    """A CSV file of this folder."""
    return reproduction.rows_of(HERE, name)


def point_of(row: Mapping[str, str]) -> GridPoint:
    """Where a row of a file was measured."""
    return GridPoint(row["model"], int(row["batch"]), int(row["length"]))


def ratios_of_s() -> dict[tuple[GridPoint, str], dict[str, float]]:
    """Of each point and system, over the GPU."""
    return {
        (point_of(row), row["system"]): {kind: float(row[kind]) for kind in TOLERANCES} for row in rows_of("ratios.csv")
    }


def over(row: GridRow, gpu: GridRow) -> dict[str, float]:
    """Ratios to the GPU."""
    return {
        "throughput": row.tokens_per_s / gpu.tokens_per_s,
        "energy": row.mj_per_token / gpu.mj_per_token,
        "step": row.step_ms / gpu.step_ms,
    }


def as_s() -> Iterator[GridRow]:
    """Our rows of all points, as they are done, on all cores: the most work first."""
    for _, rows in run_all(_as_s, sorted(GRID, key=lambda point: -point.batch * point.length)):
        yield from rows


def _as_s(point: GridPoint) -> list[GridRow]:
    """A point under the conditions of S: its router with its rates, its tRFC, processors that do not meet."""
    return list(decode_grid(load_duplex(overrides=OF_S), [point], router="busiest_to_xpu", contention=False))


def own(point: GridPoint, *, contention: bool) -> list[GridRow]:
    """Our rows of a point, by the paper's router."""
    return list(decode_grid(load_duplex(), [point], contention=contention))
