"""Runs of NeuPIMs' released simulator, as the reference data has them: `VARIANT-MODEL-LIST` in neupims/summary.csv."""

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.command import call
from tests.reference_data import data_folder

SETTINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "off": ("neupims", ("--set", "interleave.sub_batches=1")),
    "on": ("neupims", ("--set", "interleave.sub_batches=2")),
    "pim": ("npu_pim", ("--set", "interleave.sub_batches=1")),
    "VARwhile-pim": (
        "npu_pim",
        ("--set", "interleave.sub_batches=1", "--set", "faults.pim_dispatched_singly=false"),
    ),
    "npu": ("npu_only", ()),
}
OPERATORS = {
    "attn.ln": "norm", "attn.QKVgen": "qkv", "attn.NeuPIMSLogitSoftmax": "logit", "attn.NeuPIMSAttend": "attend",
    "attn.attn.FusedMHA": "fused_mha", "attn.proj": "projection", "attn.res": "residual", "ffn.ln": "norm",
    "ffn.fc1": "ffn1", "ffn.gelu": "activation", "ffn.fc2": "ffn2", "ffn.res": "residual",
}  # fmt: skip
TP, LAYERS = 4, 1  # of all runs
FEW = 64  # requests of a run that is quick enough for the quick suite


class Released(NamedTuple):
    """A run of the released simulator: its variant, model and list; cycles of its stages, of all; requests in all."""

    name: str
    variant: str
    model: str
    requests: Path
    stages: dict[str, int]
    total: int
    memory_requests: int

    @property
    def batch(self) -> int:
        """Requests of the list."""
        return sum(1 for _ in csv.DictReader(self.requests.open())) if self.requests.is_file() else 0


def released_runs() -> list[Released]:
    """All runs of the folder, none if there is none."""
    folder = data_folder() / "neupims"
    if not (folder / "summary.csv").is_file():
        return []
    return [_run(folder, row) for row in csv.DictReader((folder / "summary.csv").open())]


def _run(folder: Path, row: dict[str, str]) -> Released:
    variant = next(v for v in sorted(SETTINGS, key=len, reverse=True) if row["run"].startswith(f"{v}-"))
    model, _, requests = row["run"][len(variant) + 1 :].partition("-")
    stages = {stage: int(row[stage]) for stage in "ABCDEF" if row[stage]}
    lists, total = folder / "inputs" / f"{requests}.csv", int(row["total_cycles"])
    return Released(row["run"], variant, f"gpt3-{model.lower()}", lists, stages, total, int(row["mem_requests"]))


def operator_times(run: Released) -> list[tuple[str, int]]:
    """Operators in the order of their ends, as our result names them without their stage, and their cycles."""
    with (data_folder() / "neupims" / "op_times.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == run.name]
    return [(OPERATORS[row["op"].split(".", 1)[1]], int(row["duration"])) for row in rows]


@cache
def layer(system: str, model: str, requests: Path, *more: str) -> dict[str, Any]:
    """Our result for a layer as released."""
    done = call(
        "run", system, "--model", model, "--tp", str(TP), "--layers", str(LAYERS), "--requests", requests,
        "--fidelity", "released", "--json", "-", *more,
    )  # fmt: skip
    unplaced = f"pimloom: note: {requests.name}: ch_idx is not used, as on npu_only no request lies in one channel\n"
    assert (done.code, done.err) == (0, unplaced if system == "npu_only" else "")
    return json.loads(done.out)


def ours(run: Released) -> dict[str, Any]:
    """Our result for a run."""
    system, more = SETTINGS[run.variant]
    return layer(system, run.model, run.requests, *more)
