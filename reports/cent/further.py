"""Energy of a layer by component beside that of CENT's calculator, and its gains over GPUs, which are printed alone."""

from collections.abc import Mapping
from pathlib import Path

from pimloom.reports.page import Column, TableData
from pimloom.reports.reproduction import compared, rows_of

HERE = Path(__file__).parent
HARD_ENERGY, PRINTED = 0.001, "printed digits"  # [design]
LAST_DIGIT_UJ, PJ_PER_UJ = 0.005, 1e6  # half of the last digit of components.csv


def components(energy_pj: Mapping[str, float], devices: int) -> list[dict[str, object]]:
    """Energy of that layer's token on one device by cause, to the printed digit where that is coarser."""
    left, checks = dict(energy_pj), list[dict[str, object]]()
    for row in rows_of(HERE, "components.csv"):
        cause, theirs = row["cause"], float(row["uj"])
        pj = sum(left.values()) if cause == "rest" else left.pop(cause)
        tolerance, what = max(HARD_ENERGY, LAST_DIGIT_UJ / theirs), f"energy of that token: {cause.replace('_', ' ')}"
        said = "0.1 %" if tolerance == HARD_ENERGY else PRINTED
        checks.append(
            compared(what, pj / PJ_PER_UJ / devices, theirs, "µJ", tolerance, said, "FAIL", "derived", ",.2f")
        )
    return checks


def against_gpus() -> TableData:
    """What the authors ship, without ours."""
    rows = [{**row, "gain": float(row["gain"]), "verdict": "report only"} for row in rows_of(HERE, "against_gpu.csv")]
    return TableData(
        "Gains over GPUs that the authors ship",
        [
            Column("what", "gain in"),
            Column("model", "model"),
            Column("gain", "published", "×", format=".2f"),
            Column("verdict", "verdict", verdict=True),
        ],
        rows,
        "The file does not label the phases; their order is inferred.",
    )
