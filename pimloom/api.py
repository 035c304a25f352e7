"""The public Python API: `pimloom.run`, `pimloom.trace`, `pimloom.sweep`, `pimloom.frame`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.reports.result import Result
from pimloom.reports.simulate import simulate

if TYPE_CHECKING:
    import pandas

    from pimloom.reports.memory.outcome import Outcome


def run(
    system: str,
    *,
    model: str | Path,
    generate: int = 1024,
    prompt: int = 0,
    set: Mapping[str, object] | None = None,
    check: bool = False,
    seed: int = 0,
) -> Result:
    """Simulate `model` generating `generate` tokens on `system`, batch 1, behind a prompt of `prompt` tokens.

    system: a name from `pimloom list` or a path to a system YAML. model: a preset name, a Hugging Face config.json, or
    its folder. set: overrides by dotted place, as `--set` takes them (`{"npu.clock_mhz": 500}`). check: run the
    legality monitor on every command trace. Returns one `Result`; raises `pimloom.arch.error.UserError`.

    >>> run("pim_gpt", model="gpt2", generate=1).cycles
    148276
    """
    overrides = {place: _yaml(value) for place, value in (set or {}).items()}
    return simulate(load_system(system, overrides), load_llm(model), generate, check=check, seed=seed, prompt=prompt)


def trace(
    memory: str | Path,
    requests_file: str | Path | None = None,
    *,
    controller: str | Path | None = None,
    pattern: str | None = None,
    requests: int | None = None,
    seed: int | None = None,
    gap: float | None = None,
    stride: int | None = None,
    channels: int = 1,
    mapping: str | None = None,
    set: Mapping[str, object] | None = None,
    idle: int = 0,
    commands: str | Path | None = None,
    request_log: str | Path | None = None,
) -> "Outcome":
    """Send the requests of a trace file, or of a built-in pattern, to memory controllers, as `pimloom trace` does.

    memory: part, standard, part YAML, DRAMsim3 .ini or exported Ramulator .yaml. set: overrides such as
    `{"controller.page": "closed", "dram.timing.tRFC": "350 ns"}`. requests: of a pattern, 100,000 if None.
    commands, request_log: CSV files to write. Returns one `Outcome`; raises `pimloom.arch.error.UserError`.

    >>> trace("ddr4_3200", pattern="sequential", requests=1000).commands
    {'ACT': 8, 'RD': 1000}
    """
    from pimloom.tracing import Wanted, trace_command

    return trace_command(
        Wanted(
            memory=str(memory),
            trace=Path(requests_file) if requests_file is not None else None,
            controller=str(controller) if controller is not None else None,
            pattern=pattern,
            requests=str(requests) if requests is not None else None,
            seed=seed,
            gap=gap,
            stride=stride,
            channels=channels,
            mapping=mapping,
            settings=[f"{place}={_yaml(value)}" for place, value in (set or {}).items()],
            idle=idle,
            commands=Path(commands) if commands is not None else None,
            request_log=Path(request_log) if request_log is not None else None,
            quiet=True,
        )
    )


def sweep(
    source: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    timeout_per_point: float | None = None,
    retry_failed: bool = False,
    progress: bool = False,
) -> "pandas.DataFrame":
    """Simulate the points of a sweep, as `pimloom sweep` does; one row for each point, in the order of the axes.

    source: a sweep file, or a mapping with its keys. out: folder of its rows, which a later call goes on with; else the
    file's name without its suffix, and for a mapping none: nothing is kept. progress: show a bar on stderr. Columns:
    axes, results with units in their names, `error`, `feasible`, `pareto` (on the front of its workload) and what made
    each row (docs/sweep.md).
    Raises `pimloom.arch.error.UserError`; a point that fails is a row with its `error`.

    >>> table = sweep({"system": "pim_gpt", "workload": {"model": "gpt2", "generate": 1},
    ...                "axes": {"npu.clock_mhz": [500, 1000]}, "objectives": {"latency_s": "min"}}, workers=1)
    >>> table["pareto"].tolist()
    [False, True]
    """
    from pimloom.sweeping.run import Options, run_sweep
    from pimloom.sweeping.table import open_table

    options = Options(scheduler, workers, timeout_per_point, retry_failed, not progress)
    given = source if isinstance(source, Mapping) else Path(source)
    with TemporaryDirectory() as passing:
        nowhere = Path(passing, "sweep") if isinstance(given, Mapping) else None
        folder = run_sweep(given, nowhere if out is None else Path(out), options)
        return open_table(folder).table.frame


def frame(results: Iterable["Result | Outcome"]) -> "pandas.DataFrame":
    """Results as a table, one row each; nested fields are dotted columns such as `energy_by_cause_j.mac`."""
    import pandas  # slow to import, and only wanted here

    return pandas.json_normalize([result.as_dict() for result in results])


def _yaml(value: object) -> str:
    """A Python value as one would write it in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
