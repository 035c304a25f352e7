"""Made-up sweeps for the tests of the report."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from pimloom.sweeping.sweep_table import SweepTable

EVIL = """</script><img src=x onerror="alert(1)"> & <b>bold</b> 'x' "y" <!--"""


def grid(word: str = "gpt2-xl", **change: Any) -> SweepTable:
    """120 points of three axes with two objectives; two points failed. `word` stands wherever a user's text can."""
    rows = []
    for nth, (model, channels, clock) in enumerate(
        product([word, "llama"], [8, 16, 32, 64], np.linspace(100, 1500, 15))
    ):
        speed = channels * min(clock, 700.0) / (1 + nth // 60)
        power = 5 + channels**2 / 50 + clock**2 / 1e5
        rows.append(
            {
                "point": f"{nth:032x}",
                f"workload.model {word}": model,
                "dram.channels": channels,
                "npu.clock_mhz": clock,
                "tokens_per_s": speed,
                "energy_per_token_j": power / speed,
                "power_w": power,
                "error": None,
                "host": word,
                "feasible": power < 92.5,
            }
        )
    for nth in (3, 77):
        rows[nth] |= dict.fromkeys(("tokens_per_s", "energy_per_token_j", "power_w"), None) | {"error": f"no {word}"}
        rows[nth]["feasible"] = False
    table: dict[str, Any] = {
        "title": f"A sweep of {word}",
        "frame": pd.DataFrame(rows),
        "axes": (f"workload.model {word}", "dram.channels", "npu.clock_mhz"),
        "objectives": {"tokens_per_s": "max", "energy_per_token_j": "min"},
        "constraints": (f"power_w < 92.5 {word}",),
        "uniform": True,
        "facts": {"method": "grid", "seed": "0", "system": word, "points asked": "120"},
    }
    return SweepTable(**(table | change))
