"""Energy of a layer by component beside that of CENT's calculator, and its gains over GPUs, which are printed alone."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pimloom.arch.cent import CentSystem
from pimloom.arch.system import load_system
from pimloom.cycle_sim.cent import READ, WRITE
from pimloom.cycle_sim.near_memory import BF16, NearMemoryUnit
from pimloom.reports.page import Column, TableData
from pimloom.reports.reproduction import PREDICTED, compared, rows_of

HERE = Path(__file__).parent
HARD_ENERGY, PRINTED = 0.001, "printed digits"  # [design]
PAIRS = 1024  # of each core, so many that the way into the loop is nothing
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
            compared(what, pj / PJ_PER_UJ / devices, theirs, "µJ", tolerance, said, "FAIL", "derived", ",.2f",
                     basis=PREDICTED)
        )
    return checks


def of_cores() -> TableData:
    """What the cores of a near-memory unit execute, beside the cycles that the authors count for it."""
    unit, spec = NearMemoryUnit(), load_system("cent").of_kind(CentSystem).near_memory
    unit.root(np.float32(1), 1, 0.0)
    unit.reciprocals(np.ones(unit.cores, np.float32))
    unit.rotated(np.ones((unit.cores * PAIRS, 4), BF16))
    ours = {name: sum(count.values()) for name, count in unit.executed.items()}
    lanes = spec.lanes * WRITE
    rows = [
        {"what": "root of an RMSNorm", "ours": float(ours["root"]), "cycles": float(spec.norm_cyc)},
        {"what": "reciprocal of a softmax, with its lanes", "ours": float(ours["reciprocal"]),
         "cycles": READ + lanes + spec.softmax_cyc},
        {"what": "an element of a rotation", "ours": ours["rotation"] / (2 * PAIRS),
         "cycles": float(spec.rotation_cyc)},
    ]  # fmt: skip
    return TableData(
        "Programs of the cores",
        [
            Column("what", "on one core"),
            Column("ours", "instructions of our program", format=",.1f"),
            Column("cycles", "cycles that the authors count", format=",.1f"),
        ],
        rows,
        "Times and energies have the authors' cycles; our programs give the numbers.",
    )


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
