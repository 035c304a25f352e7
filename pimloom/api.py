"""The public Python API: `run`, `compare`, `trace`, `aim`, `sweep` and `frame` of `pimloom`.

Each function takes the options of its command under their names, with the same defaults and checks; the only error is
`pimloom.UserError`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

from pimloom import typed
from pimloom.edge import ask, public

if TYPE_CHECKING:
    import pandas

    from pimloom.systems.devices.attacc.outcome import AttAccOutcome
    from pimloom.systems.devices.cent.outcome import CentOutcome
    from pimloom.systems.devices.npu_pim.served import Served
    from pimloom.systems.devices.result import Result
    from pimloom.systems.memory.aim.outcome import AimOutcome
    from pimloom.systems.memory.outcome import Outcome
    from pimloom.systems.serving.comparing import Comparison
    from pimloom.systems.serving.decoding import Decoded
    from pimloom.systems.serving.generation import Generated


@overload
def run(
    system: str | Path,
    *,
    model: str | Path,
    generate: int | None = ...,
    prompt: int | None = ...,
    batch: int | None = ...,
    chunk: int | None = ...,
    every: int | None = ...,
    tp: int | None = ...,
    pp: int | None = ...,
    devices: int | None = ...,
    context: int | None = ...,
    layers: int | None = ...,
    fidelity: str | None = ...,
    lm_head: bool | None = ...,
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
    chunk: int | None = ...,
    iterations: int | None = ...,
    every: int | None = ...,
    policy: str | None = ...,
    tp: int | None = ...,
    pp: int | None = ...,
    layers: int | None = ...,
    fidelity: str | None = ...,
    lm_head: bool | None = ...,
    set: Mapping[str, object] | None = ...,
    seed: int = ...,
) -> Any: ...
@public
def run(
    system: str | Path,
    *,
    model: str | Path,
    generate: int | None = None,
    prompt: int | None = None,
    requests: str | Path | None = None,
    batch: int | None = None,
    chunk: int | None = None,
    iterations: int | None = None,
    every: int | None = None,
    policy: str | None = None,
    tp: int | None = None,
    pp: int | None = None,
    devices: int | None = None,
    context: int | None = None,
    layers: int | None = None,
    fidelity: str | None = None,
    lm_head: bool | None = None,
    set: Mapping[str, object] | None = None,
    timeline: str | Path | None = None,
    window: str | None = None,
    check: bool = False,
    seed: int = 0,
) -> "Result | Generated | Served | Decoded | AttAccOutcome | CentOutcome":
    """Simulate `model` on `system`, as `pimloom run` does; all options are the command's.

    system: a name from `pimloom list` or a path to a system YAML. model: a preset name, a Hugging Face config.json, or
    its folder. set: overrides by dotted place, as `--set` takes them (`{"npu.clock_mhz": 500}`).

    `generate` tokens (1024 if None) of each of `batch` requests behind prompts of `prompt` tokens, on NPUs with or
    without PIM and on rooflines: a `Generated`; prompts go in pieces of `chunk` tokens, of decode one in `every`
    iterations is simulated. lm_head: with embedding, LM head and sampling; without them by default, on every system
    (PIM-GPT: as `workload.lm_head` of its file says), also with `requests`.

    PIM-GPT, and rooflines without options of a batch, run one sequence: `generate` tokens behind a prompt of `prompt`
    tokens; a `Result`. check: run the legality monitor on every command trace; timeline: a Perfetto file of a
    `window` of the run, "FROM:TO" in µs.

    NPUs with or without PIM decode a batch of `requests`: a data set ("sharegpt", "alpaca"), a CSV list of contexts, or
    a trace of arrivals; so does a roofline with `requests`. A `Served` of one iteration; a `Decoded` with `iterations`
    above 1. Raises `pimloom.UserError`.

    >>> run("pim_gpt", model="gpt2", generate=1).cycles
    148276
    >>> run("gpu_a100", model="gpt3-7b", requests="alpaca", batch=8, tp=2).batch
    8
    """
    from pimloom.commands.run import run as command
    from pimloom.commands.running import run_any
    from pimloom.systems.asked import Asked

    return ask(command, locals(), lambda **read: run_any(Asked(**read, quiet=True)).found)


@public
def compare(
    systems: Iterable[str | Path],
    *,
    model: str | Path,
    generate: int | None = None,
    prompt: int = 0,
    batch: int = 1,
    chunk: int = 2048,
    every: int = 16,
    tp: int | None = None,
    layers: int | None = None,
    lm_head: bool = False,
    set: Mapping[str, object] | None = None,
    price: str | float | None = None,
    html: str | Path | None = None,
) -> "Comparison":
    """Run one workload on several systems, as `pimloom compare` does; a system that cannot run it has its `reason`.

    systems: names from `pimloom list` or paths to system YAMLs. `batch` requests with prompts of `prompt` tokens, each
    of which generates `generate` (256 if None); of decode one in `every` iterations is simulated, the others are
    interpolated. tp: devices that share each layer, None: as each system's file has it. lm_head: with embedding, LM
    head and sampling on every system, or on none. set: overrides by system and dotted place (`{"t4:power_w": 60}`);
    price: dollars an hour for a device, of all systems, or of each as in "1.29:2.69". html: a folder for a page. Raises
    `pimloom.UserError`.

    >>> compare(["pim_gpt", "gpu_a100"], model="gpt2", generate=2).first
    'pim_gpt'
    """
    from pimloom.commands.run import compare as command
    from pimloom.commands.running import run_compare

    if isinstance(systems, str | Path) or not isinstance(systems, Iterable):
        typed.fail("systems", "several names or paths", systems)
    names = [typed.text("systems", name) for name in systems]
    given = {name: value for name, value in locals().items() if name != "systems"}
    return ask(command, given, lambda **read: run_compare(names, **read, json=None, quiet=True).found)


@public
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
    `Outcome`; raises `pimloom.UserError`.

    >>> trace("ddr4_3200", pattern="sequential", requests=1000).commands
    {'ACT': 8, 'RD': 1000}
    """
    from pimloom.commands.trace import trace as command
    from pimloom.commands.tracing import run_trace
    from pimloom.systems.memory.tracing import Wanted

    return ask(command, locals(), lambda **read: run_trace(Wanted(**read, quiet=True)))


@public
def aim(
    program: str | Path,
    *,
    config: str | Path = "gddr6_aim",
    set: Mapping[str, object] | None = None,
    channel: int = 0,
    commands: str | Path | None = None,
    data: str | Path | None = None,
    read: str | Path | None = None,
) -> "AimOutcome":
    """Run a file of AiM's host instructions, as `pimloom aim` does.

    config: an AiM device by name or path. set: overrides such as `{"channels": 16, "dram.timing.tRP": "36 nCK"}`.
    channel: the one that `commands` of the result tells of; commands: a CSV file to write. data: an .npy file of what
    W MEM and W GPR write, numbers[n, 16]; read: one to write, of what R MEM and R GPR read. Returns one `AimOutcome`;
    raises `pimloom.UserError`.

    >>> aim("examples/aim/gemv.aim").cycles
    602
    """
    from pimloom.commands.aiming import run_aim
    from pimloom.commands.trace import aim as command
    from pimloom.systems.memory.aim.asked import Wanted

    return ask(command, locals(), lambda **read: run_aim(Wanted(**read, quiet=True)))


@public
def sweep(
    source: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    timeout_per_point: float | None = None,
    retry_failed: bool = False,
    wait: float = 60.0,
    progress: bool = False,
) -> "pandas.DataFrame":
    """Simulate the points of a sweep, as `pimloom sweep` does; one row for each point, in the order of the axes.

    source: a sweep file, or a mapping with its keys. out: folder of its rows, which a later call goes on with; else the
    file's name without its suffix, and for a mapping none: nothing is kept. progress: show a bar on stderr. Columns:
    axes, results with units in their names, `error`, `feasible`, `pareto` (on the front of its workload) and what made
    each row (docs/sweep.md).
    Raises `pimloom.UserError`; a point that fails is a row with its `error`.

    >>> table = sweep({"system": "pim_gpt", "workload": {"model": "gpt2", "generate": 1},
    ...                "axes": {"npu.clock_mhz": [500, 1000]}, "objectives": {"latency_s": "min"}}, workers=1)
    >>> table["pareto"].tolist()
    [False, True]
    """
    from pimloom.commands.sweep import run as command
    from pimloom.sweeping.run import Options, run_sweep
    from pimloom.sweeping.table import open_table

    given = source if isinstance(source, Mapping) else Path(typed.text("source", source))
    quiet = not typed.flag("progress", progress)

    def rows(out: Path | None, wait: float, timeout_per_point: float | None, **read: Any) -> "pandas.DataFrame":
        options = Options(timeout_s=timeout_per_point, wait_s=wait, quiet=quiet, **read)
        with TemporaryDirectory() as passing:
            nowhere = Path(passing, "sweep") if isinstance(given, Mapping) else None
            return open_table(run_sweep(given, nowhere if out is None else out, options)).table.frame

    return ask(command, locals(), rows)


@public
def frame(results: "Iterable[Result | Served | Decoded | Outcome]") -> "pandas.DataFrame":
    """Results as a table, one row each; nested fields are dotted columns such as `energy_by_cause_j.mac`."""
    import pandas  # slow to import, and only wanted here

    if not isinstance(results, Iterable):
        typed.fail("frame", "results, in a list or the like", results)
    rows = []
    for result in results:
        if not hasattr(result, "to_dict") or not hasattr(result, "_repr_html_") or hasattr(result, "iloc"):
            typed.fail("frame", "results of run or trace", result)
        rows.append(result.to_dict())
    return pandas.json_normalize(rows)
