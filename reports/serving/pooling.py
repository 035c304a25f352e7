"""Pools for prompts and for decode beside replicas that do both: Splitwise on processors."""

from collections.abc import Iterator
from typing import Any

from pimloom.reports.serving.rows import Row, row
from pimloom.reports.serving.sharing import goodput


def splitwise() -> Iterator[Row]:
    """Two processors apart beside two that do both; lengths drawn."""
    asked: dict[str, Any] = {"arrivals": "poisson:10/s", "lengths": "1024:64", "requests": 80, "rate": "1:60"}
    asked |= {"slo": "ttft=400ms,tpot=20ms", "share": 0.9}
    both = goodput(replicas=2, **asked).goodput_per_s
    pools: dict[str, Any] = {"system": "prefill=gpu_a100,decode=gpu_a100", "link": "nvlink3", "scheduler": "splitwise"}
    for mixed in (False, True):
        apart = goodput(**pools, mixed=mixed, **asked).goodput_per_s
        what = "requests within limits over both on each" + (", machines of either pool help out" if mixed else "")
        yield row(
            "Splitwise (not of this table's papers)", what, apart / both, "1.4 at 20 % lower cost, 2.35 at the same",
            "secondary", unit="×", machine="llama-3-8b on 2 gpu_a100, 1024:64",
        )  # fmt: skip
