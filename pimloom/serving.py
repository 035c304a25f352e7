"""What `pimloom run` does with batches of requests: read them, run decode iterations, print what they took."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.load import nearest
from pimloom.arch.npu_pim import Faults, NpuPimSystem
from pimloom.arch.system import RooflineSystem, System, load_system
from pimloom.arch.units import J_PER_MJ, J_PER_PJ, J_PER_UJ, S_PER_US
from pimloom.cycle_sim.npu_pim.kernels.machine import run_all
from pimloom.decoding_show import show_decoded, show_source
from pimloom.mappers.packing import round_robin
from pimloom.reports.npu_pim.decoding import Plan, decode_iterations, described, summary
from pimloom.reports.npu_pim.gpu import serve_gpu
from pimloom.reports.npu_pim.parallel import serve_on_devices
from pimloom.reports.npu_pim.requests import read_requests
from pimloom.reports.npu_pim.serve import Served
from pimloom.reports.serving.batching import POLICIES
from pimloom.reports.serving.data_sets import DATA_SETS
from pimloom.reports.serving.trace_file import is_trace
from pimloom.reports.serving.workload import KNOWN, load_workload
from pimloom.running import check_writable, parse_settings, progress_bar
from pimloom.show import show_line, show_rows

MOST_CHANNELS = 256  # that a request list may name where none matters
FIDELITIES = {"released": "true", "physical": "false"}


class Asked(NamedTuple):
    """Options of `pimloom run` for a batch; None where not given."""

    requests: str | None
    batch: int | None
    iterations: int | None
    every: int | None
    policy: str | None
    seed: int
    tp: int
    pp: int
    layers: int | None
    fidelity: str | None


class Answer(NamedTuple):
    """The result as JSON has it, and what prints it for a person."""

    value: dict[str, Any]
    show: Callable[[], None]


def serves(system: str, batched: bool) -> bool:
    """Whether a system serves a batch: an NPU always, a roofline if options of a batch are given."""
    spec = load_system(system).spec
    return isinstance(spec, NpuPimSystem) or (batched and isinstance(spec, RooflineSystem))


def serve_command(
    system: str, model: str, settings: Sequence[str], asked: Asked, *, json: str | None, quiet: bool
) -> Answer:
    """Run decode iterations as `pimloom run` was asked to. Raises UserError."""
    if json not in (None, "-"):
        check_writable(Path(json or ""), "--json")
    fidelity = asked.fidelity or "physical"
    _check_one_of("--fidelity", fidelity, FIDELITIES)
    _check_one_of("--policy", asked.policy or POLICIES[0], POLICIES)
    for option, number in (("--batch", asked.batch), ("--iterations", asked.iterations), ("--every", asked.every)):
        if number is not None and number < 1:
            raise UserError(f"{option} {number}: expected at least 1")
    requests = asked.requests
    if requests is None:
        raise UserError(f"--requests: expected a CSV list (seq_len,ch_idx or seq_len), {KNOWN}")
    llm = load_llm(model)
    if asked.layers is not None and not 1 <= asked.layers <= llm.num_hidden_layers:
        raise UserError(f"--layers {asked.layers}: expected 1 to {llm.num_hidden_layers}, the layers of {llm.name}")
    asked = asked._replace(fidelity=fidelity, layers=asked.layers or llm.num_hidden_layers)
    if isinstance(load_system(system).spec, RooflineSystem):
        return _gpu(load_system(system, parse_settings(settings)), llm, asked)
    faults = {f"faults.{name}": FIDELITIES[fidelity] for name in Faults.__struct_fields__}
    hardware = load_system(system, faults | parse_settings(settings))
    if _is_list(requests):
        return _one_list(hardware, llm, asked, quiet)
    return _workload(hardware, llm, asked, quiet)


def _gpu(system: System, llm: LlmSpec, asked: Asked) -> Answer:
    """One iteration of a list of contexts on a roofline."""
    assert asked.requests and asked.layers
    if asked.fidelity == "released":
        raise UserError(f"--fidelity released: {system.name} is a roofline, it has no faults to turn on; leave it out")
    if asked.pp > 1:
        raise UserError(f"--pp {asked.pp}: {system.name} is a roofline, without pipelines; leave it out")
    if not _is_list(asked.requests) and not Path(asked.requests).exists():
        raise UserError(f"--requests {asked.requests}: {system.name} takes a CSV list of contexts (seq_len)")
    _refuse_many(asked)
    tokens, _ = read_requests(Path(asked.requests), MOST_CHANNELS)
    found = serve_gpu(system, llm, tokens, tp=asked.tp, layers=asked.layers)
    return Answer(found.as_dict() | {"workload": None}, lambda: show_served(found))


def _check_one_of(option: str, value: str, known: Sequence[str] | dict[str, str]) -> None:
    if value not in known:
        raise UserError(f"{option} {value}: expected one of {', '.join(known)}{nearest(value, known)}")


def _is_list(requests: str) -> bool:
    """Whether the requests are contexts of one iteration, not a workload."""
    path = Path(requests)
    if requests in DATA_SETS or not path.exists():
        return False
    return not path.is_file() or not is_trace(path)  # a pipe can be read but once


def _refuse_many(asked: Asked) -> None:
    """Raise UserError for options of many iterations."""
    for option, number in (("--batch", asked.batch), ("--iterations", asked.iterations), ("--every", asked.every)):
        if number is not None:
            raise UserError(
                f"{option} {number}: {asked.requests} lists the contexts of one iteration; leave {option} out or "
                "give --requests a data set or a trace"
            )


def _one_list(hardware: System, llm: LlmSpec, asked: Asked, quiet: bool) -> Answer:
    """One iteration of a list of contexts."""
    _refuse_many(asked)
    assert isinstance(hardware.spec, NpuPimSystem) and asked.requests and asked.layers and asked.fidelity
    channels = hardware.spec.dram.channels
    tokens, channel = read_requests(Path(asked.requests), channels)
    if asked.policy and channel is not None:
        raise UserError(f"--policy {asked.policy}: {asked.requests} gives the channels; leave one of the two out")
    if asked.policy == "round-robin":
        channel = round_robin(tokens.tolist(), channels)
    with progress_bar(f"{llm.name} on {hardware.name}", quiet, run_all):
        found = serve_on_devices(
            hardware, llm, tokens, channel, tp=asked.tp, pp=asked.pp, layers=asked.layers, fidelity=asked.fidelity
        )
    return Answer(found.as_dict() | {"workload": None}, lambda: show_served(found))


def _workload(hardware: System, llm: LlmSpec, asked: Asked, quiet: bool) -> Answer:
    """Iterations of a data set or a trace."""
    assert asked.requests and asked.layers and asked.fidelity
    workload = load_workload(asked.requests, seed=asked.seed)
    if asked.batch is None:
        many = "most requests at once" if workload.timed else "how many requests are kept alive"
        raise UserError(f"--batch: expected {many}, as --requests {asked.requests} does not say it")
    plan = Plan(
        asked.batch,
        asked.iterations or 1,
        asked.every or 1,
        asked.policy or POLICIES[0],
        asked.seed,
        asked.tp,
        asked.pp,
        asked.layers,
        asked.fidelity,
    )
    with progress_bar(f"{llm.name} on {hardware.name}", quiet, run_all) as progress:
        done, served = decode_iterations(hardware, llm, workload, plan, lambda n: progress(n, plan.iterations))
    source = described(workload, plan)
    if plan.iterations > 1:
        found = summary(hardware, llm, plan, workload, done, served)
        return Answer(found.as_dict(), lambda: show_decoded(found))

    def show() -> None:
        show_source(source)
        show_served(served[0])

    return Answer(served[0].as_dict() | {"workload": source}, show)


def show_served(found: Served) -> None:
    """Print stages and operators."""
    show_line(
        f"{found.model} on {found.system}, {found.fidelity}: {found.batch} requests of {found.tokens:,} tokens, "
        f"tensor parallel over {found.tp}"
    )
    rows = [
        {"name": f"stage {name}", "cyc": cyc, "share": cyc / found.total_cyc} for name, cyc in found.stages_cyc.items()
    ]
    rows += [{"name": name, "cyc": cyc, "share": cyc / found.total_cyc} for name, cyc in found.operators_cyc.items()]
    columns = (("name", "one layer", ""), ("cyc", "cycles|r", ",d"), ("share", "share|r", ".1%"))
    show_rows(columns, rows)
    show_line(
        f"all stages {found.total_cyc:,} cycles of {found.clock_ps} ps; {found.layers} layers "
        f"{found.iteration_cyc:,} cycles; {found.tokens_per_s:,.0f} tokens/s"
    )
    if found.tp > 1 and found.allreduce_s:
        show_line(
            f"all-reduces {found.allreduce_s / S_PER_US:,.1f} µs, {found.allreduce_exposed_s / S_PER_US:,.1f} µs of "
            "them exposed"
        )
    if found.pp > 1:
        show_line(
            f"pipeline of {found.pp} stages, {found.micro_batches} micro-batches, whose layers are summed above; "
            f"bubble {found.bubble:.1%}"
        )
    if found.energy_pj_by_cause is not None:
        _show_energy(found)


def _show_energy(found: Served) -> None:
    simulated, iteration = found.energy_pj_by_cause, found.iteration_energy_by_cause_j
    joules, per_token_j, watts = found.iteration_energy_j, found.energy_per_token_j, found.power_w
    assert simulated and iteration and joules and per_token_j and watts
    rows = [
        {
            "cause": cause,
            "uj": simulated.get(cause, 0.0) * J_PER_PJ / J_PER_UJ,
            "mj": part / J_PER_MJ,
            "share": part / joules,
        }
        for cause, part in iteration.items()
    ]
    columns = (
        ("cause", "energy, one device", ""),
        ("uj", "as simulated, µJ|r", ",.2f"),
        ("mj", f"{found.layers} layers, mJ|r", ",.3f"),
        ("share", "share|r", ".1%"),
    )
    show_rows(columns, rows)
    show_line(
        f"{found.layers} layers {joules / J_PER_MJ:,.2f} mJ and {watts:,.1f} W a device; "
        f"{per_token_j / J_PER_MJ:,.3f} mJ a token, tensor parallel over {found.tp}"
    )
