"""`pimloom.fabric`: optical fabrics, their faults, placements, costs and speed, as `pimloom fabric` has them.

Each function takes the options of its command, returns an `Answer` with the fields of the command's JSON
(docs/fabric.md) and raises `pimloom.UserError` only. Several values are a list or the command's text: `tp=[8, 16]` or
`tp="8,16"`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pimloom.edge import ask, public

if TYPE_CHECKING:
    from pimloom.answer import Answer

__all__ = ["cost", "faults", "mfu", "place", "switch", "waste"]


@public
def waste(
    *,
    arch: str | Sequence[str] = "all",
    gpus: int = 2880,
    gpus_per_node: int = 4,
    tp: int | str | Sequence[int] = "32",
    faults: str | Path | None = None,
    servers: int | None = None,
    days: float | None = None,
    fault_ratio: float | str | Sequence[float] | None = None,
    draws: int | None = None,
    job_gpus: int | None = None,
    seed: int = 0,
    csv: str | Path | None = None,
    figure: str | Path | None = None,
) -> "Answer":
    """Healthy GPUs that no tensor-parallel group can use, on each architecture: a row for each, TP and fault ratio.

    faults: a trace of `servers` over `days` in the public format, else a synthetic one drawn with `seed`. fault_ratio:
    instead, each node down alone with that probability. draws: random draws, 10 of a trace, 100 of a ratio if None.
    job_gpus: also the share of time in which a job of so many must wait. csv, figure: files to write. Ratios are
    shares of all GPUs, from 0 to 1.

    >>> found = waste(arch="nvl72", gpus=720, fault_ratio=[0, 0.05], draws=10)
    >>> [row["waste_ratio_mean"] for row in found.rows][0] > 0
    True
    """
    from pimloom.commands.fabric.waste import waste as command

    return ask(command, locals())


@public
def faults(
    *,
    faults: str | Path | None = None,
    servers: int | None = None,
    days: float | None = None,
    synthesise: str | Path | None = None,
    seed: int = 0,
    csv: str | Path | None = None,
) -> "Answer":
    """Statistics of a fault trace, or without `faults` of a synthetic one like the public trace; times in hours.

    servers: those of the trace, with those that never fail, 400 if None. days: that count, else up to the last event.
    synthesise: a file for the synthetic trace. `to_frame()` has a row for each class of fault.

    >>> faults(seed=1).servers
    400
    """
    from pimloom.commands.fabric.faults import faults as command

    return ask(command, locals())


@public
def place(
    *,
    nodes: int = 720,
    tp: int = 32,
    job_gpus: int | None = None,
    faulty: str | Sequence[int] | None = None,
    fault_ratio: float | None = None,
    seed: int = 0,
    tor_size: int = 8,
    gpus_per_node: int = 4,
    arch: str = "infinitehbd-k3",
    algorithm: Literal["spares", "aligned", "unconstrained", "ring"] = "spares",
    corners: bool = False,
    optimum: bool = False,
    dcn_share: float = 1.0,
    csv: str | Path | None = None,
    figure: str | Path | None = None,
) -> "Answer":
    """Place the groups of a job on a ring of `nodes` around faulty ones, and check that the hardware can hold it.

    job_gpus: 85 % of all GPUs if None. faulty: numbers of nodes, or "17,203-205"; fault_ratio: instead, drawn with
    `seed`. A placement that the hardware cannot hold is no error: `holds` is False and `complaints` says why.
    `to_frame()` has a row for each node.

    >>> found = place(nodes=64, tp=16, job_gpus=160, faulty=[3])
    >>> found.groups, found.holds
    (10, True)
    """
    from pimloom.commands.fabric.place import place as command

    return ask(command, locals())


@public
def cost(
    *,
    arch: str | Sequence[str] = "all",
    gpus_per_node: int = 4,
    set: Mapping[str, object] | None = None,
    parts: bool = False,
    gpu_usd: float | None = None,
    fault_ratio: float | str | Sequence[float] | None = None,
    gpus: int = 2880,
    tp: int | str | Sequence[int] = "32",
    draws: int = 100,
    seed: int = 0,
    waste: str | Path | None = None,
    figure: str | Path | None = None,
    csv: str | Path | None = None,
) -> "Answer":
    """Cost [$] and power [W] of each network per GPU and per GB/s, from lists of its parts.

    set: other prices or counts, such as {"ocstrx.usd": 500}. parts: a row for each part. gpu_usd: the price of a GPU,
    for the cost with idle GPUs under faults: of nodes down with `fault_ratio`, or of the file `waste` that
    `waste(csv=...)` wrote.

    >>> [row["arch"] for row in cost(arch=["infinitehbd-k2", "nvl72"]).rows]
    ['infinitehbd-k2', 'nvl72']
    """
    from pimloom.commands.fabric.cost import cost as command

    return ask(command, locals())


@public
def mfu(
    *,
    model: str | Path,
    gpus: int | str | Sequence[int] = "1024,8192,131072",
    arch: str | Sequence[str] = "infinitehbd-k2,dgx8",
    gpu: str | Path = "h100",
    batch: int = 2048,
    micro_batch: int | str | Sequence[int] = "1",
    tp: int | str | Sequence[int] = "8,16,32,64",
    schedule: Literal["1f1b", "interleaved", "interleaved-ideal"] = "1f1b",
    interleave: int | None = None,
    all_to_all: Literal["dcn", "hbd"] = "dcn",
    hbd_gb_s: float | Mapping[str, float] | None = None,
    set: Mapping[str, object] | None = None,
    sensitivity: bool = False,
    figure: str | Path | None = None,
    csv: str | Path | None = None,
) -> "Answer":
    """MFU of the best TP × PP × DP × EP that fits, for each number of GPUs and fabric, and its ratio to DGX.

    batch: sequences of a step; micro_batch, tp: what is tried. interleave: most chunks of a stage, 8 if interleaved and
    None. hbd_gb_s: other GB/s of a GPU each way, of all but dgx8 or by name. set: other values of the GPU or the
    recipe, such as {"gpu.dcn_gb_s": 100}. sensitivity: how the ratio hangs on bandwidth, batch and schedule, instead.

    >>> mfu(model="gpt3-7b", gpus=64, batch=64, arch="dgx8").rows[0]["gpus"]
    64
    """
    from pimloom.commands.fabric.mfu import mfu as command

    return ask(command, locals())


@public
def switch(
    *,
    events: str | Path,
    part: str | Path = "ocstrx",
    timeline: str | Path | None = None,
    set: Mapping[str, object] | None = None,
    csv: str | Path | None = None,
) -> "Answer":
    """One optical-switch transceiver through a YAML of events (requests, failures, repairs, data), clock by clock.

    set: other values of the part, such as {"timing.retrain": "2 ms"}. timeline: a Perfetto file to write. Times are µs,
    those of `times_cycles` clocks of `clock_ps`. `to_frame()` has a row for each request.

    >>> switch(events="examples/ocs_events.yaml").part
    'ocstrx'
    """
    from pimloom.commands.fabric.switch import switch as command

    return ask(command, locals())
