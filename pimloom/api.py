"""The public Python API: `pimloom.run`, `pimloom.trace`, `pimloom.sweep`, `pimloom.frame`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

from pimloom import typed
from pimloom.arch.inputs import begin
from pimloom.typed import Unsaid

if TYPE_CHECKING:
    import pandas

    from pimloom.systems.devices.npu_pim.served import Served
    from pimloom.systems.devices.result import Result
    from pimloom.systems.memory.outcome import Outcome
    from pimloom.systems.serving.comparing import Comparison
    from pimloom.systems.serving.decoding import Decoded
    from pimloom.systems.serving.generation import Generated


@overload
def run(
    system: str | Path,
    *,
    model: str | Path,
    generate: int = ...,
    prompt: int = ...,
    batch: int | None = ...,
    chunk: int | None = ...,
    every: int | None = ...,
    tp: int | None = ...,
    layers: int | None = ...,
    fidelity: str | None = ...,
    set: Mapping[str, object] | None = ...,
    timeline: str | Path | None = ...,
    window: str | None = ...,
    check: bool = ...,
    seed: int = ...,
) -> Any: ...
@overload
def run(
    system: str | Path,
    *,
    model: str | Path,
    requests: str | Path,
    batch: int | None = ...,
    iterations: int | None = ...,
    every: int | None = ...,
    policy: str | None = ...,
    tp: int | None = ...,
    pp: int | None = ...,
    layers: int | None = ...,
    fidelity: str | None = ...,
    set: Mapping[str, object] | None = ...,
    seed: int = ...,
) -> Any: ...
def run(
    system: str | Path,
    *,
    model: str | Path,
    generate: int = Unsaid(1024),
    prompt: int = Unsaid(0),
    requests: str | Path | None = None,
    batch: int | None = None,
    chunk: int | None = None,
    iterations: int | None = None,
    every: int | None = None,
    policy: str | None = None,
    tp: int | None = None,
    pp: int | None = None,
    layers: int | None = None,
    fidelity: str | None = None,
    set: Mapping[str, object] | None = None,
    timeline: str | Path | None = None,
    window: str | None = None,
    check: bool = False,
    seed: int = 0,
) -> "Result | Generated | Served | Decoded":
    """Simulate `model` on `system`, as `pimloom run` does; all options are the command's.

    system: a name from `pimloom list` or a path to a system YAML. model: a preset name, a Hugging Face config.json, or
    its folder. set: overrides by dotted place, as `--set` takes them (`{"npu.clock_mhz": 500}`).

    `generate` tokens of each of `batch` requests behind prompts of `prompt` tokens, on NPUs with or without PIM and on
    rooflines: a `Generated`; prompts go in pieces of `chunk` tokens, of decode each `every`-th iteration is simulated.

    PIM-GPT, and rooflines without options of a batch, run one sequence: `generate` tokens behind a prompt of `prompt`
    tokens; a `Result`. check: run the legality monitor on every command trace; timeline: a Perfetto file of a
    `window` of the run, "FROM:TO" in µs.

    NPUs with or without PIM decode a batch of `requests`: a data set ("sharegpt", "alpaca"), a CSV list of contexts, or
    a trace of arrivals; so does a roofline with `requests`. A `Served` of one iteration; a `Decoded` with `iterations`
    above 1. Raises `pimloom.arch.error.UserError`.

    >>> run("pim_gpt", model="gpt2", generate=1).cycles
    148276
    >>> run("gpu_a100", model="gpt3-7b", requests="alpaca", batch=8, tp=2).batch
    8
    """
    from pimloom.run_any import Run, run_any

    begin()
    return run_any(
        Run(
            system=typed.text("system", system),
            model=typed.text("model", model),
            settings=typed.settings(set),
            generate=typed.said(typed.count("generate", generate)),
            prompt=typed.said(typed.count("prompt", prompt)),
            requests=typed.maybe_text("requests", requests),
            batch=typed.maybe_count("batch", batch),
            chunk=typed.maybe_count("chunk", chunk),
            iterations=typed.maybe_count("iterations", iterations),
            every=typed.maybe_count("every", every),
            policy=typed.maybe_text("policy", policy),
            tp=typed.maybe_count("tp", tp),
            pp=typed.maybe_count("pp", pp),
            layers=typed.maybe_count("layers", layers),
            fidelity=typed.maybe_text("fidelity", fidelity),
            timeline=typed.maybe_path("timeline", timeline),
            window=typed.maybe_text("window", window),
            check=typed.flag("check", check),
            seed=typed.count("seed", seed),
            quiet=True,
        )
    ).found


def compare(
    systems: Iterable[str | Path],
    *,
    model: str | Path,
    generate: int = 256,
    prompt: int = 0,
    batch: int = 1,
    chunk: int = 2048,
    every: int = 16,
    tp: int = 1,
    layers: int | None = None,
    html: str | Path | None = None,
) -> "Comparison":
    """Run one workload on several systems, as `pimloom compare` does; a system that cannot run it has its `reason`.

    systems: names from `pimloom list` or paths to system YAMLs. `batch` requests with prompts of `prompt` tokens, each
    of which generates `generate`; of decode each `every`-th iteration is simulated, the others are interpolated. html:
    a folder for a page. Raises `pimloom.UserError`.

    >>> compare(["pim_gpt", "gpu_a100"], model="gpt2", generate=2).first
    'pim_gpt'
    """
    from pimloom.comparing import Asked, compare_command

    begin()
    if isinstance(systems, str | Path) or not isinstance(systems, Iterable):
        typed.fail("systems", "several names or paths", systems)
    names = [typed.text("systems", name) for name in systems]
    asked = Asked(
        typed.count("prompt", prompt),
        typed.count("generate", generate),
        typed.count("batch", batch),
        typed.count("chunk", chunk),
        typed.count("every", every),
        typed.count("tp", tp),
        typed.maybe_count("layers", layers),
    )
    page = typed.maybe_path("html", html)
    return compare_command(names, typed.text("model", model), asked, json=None, html=page, quiet=True).found


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
    timeline: str | Path | None = None,
    window: str | None = None,
) -> "Outcome":
    """Send the requests of a trace file, or of a built-in pattern, to memory controllers, as `pimloom trace` does.

    memory: part, standard, part YAML, DRAMsim3 .ini or exported Ramulator .yaml. set: overrides such as
    `{"controller.page": "closed", "dram.timing.tRFC": "350 ns"}`. requests: of a pattern, 100,000 if None.
    commands, request_log: CSV files to write; timeline: a Perfetto file of a `window` "FROM:TO" of clocks. Returns one
    `Outcome`; raises `pimloom.arch.error.UserError`.

    >>> trace("ddr4_3200", pattern="sequential", requests=1000).commands
    {'ACT': 8, 'RD': 1000}
    """
    from pimloom.systems.memory.tracing import Wanted
    from pimloom.tracing import trace_command

    begin()
    return trace_command(
        Wanted(
            memory=typed.text("memory", memory),
            trace=typed.maybe_path("requests_file", requests_file),
            controller=typed.maybe_text("controller", controller),
            pattern=typed.maybe_text("pattern", pattern),
            requests=None if requests is None else str(typed.count("requests", requests)),
            seed=typed.maybe_count("seed", seed),
            gap=typed.maybe_number("gap", gap),
            stride=typed.maybe_count("stride", stride),
            channels=typed.count("channels", channels),
            mapping=typed.maybe_text("mapping", mapping),
            settings=typed.settings(set),
            idle=typed.count("idle", idle),
            commands=typed.maybe_path("commands", commands),
            request_log=typed.maybe_path("request_log", request_log),
            timeline=typed.maybe_path("timeline", timeline),
            window=typed.maybe_text("window", window),
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

    begin()
    options = Options(
        typed.maybe_text("scheduler", scheduler),
        typed.maybe_count("workers", workers),
        typed.maybe_number("timeout_per_point", timeout_per_point),
        typed.flag("retry_failed", retry_failed),
        not typed.flag("progress", progress),
    )
    folder_asked = typed.maybe_path("out", out)
    given = source if isinstance(source, Mapping) else Path(typed.text("source", source))
    with TemporaryDirectory() as passing:
        nowhere = Path(passing, "sweep") if isinstance(given, Mapping) else None
        folder = run_sweep(given, nowhere if out is None else folder_asked, options)
        return open_table(folder).table.frame


def frame(results: "Iterable[Result | Served | Decoded | Outcome]") -> "pandas.DataFrame":
    """Results as a table, one row each; nested fields are dotted columns such as `energy_by_cause_j.mac`."""
    import pandas  # slow to import, and only wanted here

    if not isinstance(results, Iterable):
        typed.fail("frame", "results, in a list or the like", results)
    rows = []
    for result in results:
        if not hasattr(result, "as_dict"):
            typed.fail("frame", "results of run or trace", result)
        rows.append(result.as_dict())
    return pandas.json_normalize(rows)
