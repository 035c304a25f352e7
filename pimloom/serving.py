"""What `pimloom run` does with batches of requests: read them, run decode iterations, print what they took."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.load import nearest
from pimloom.arch.neupims import Faults
from pimloom.arch.system import System, load_system
from pimloom.cycle_sim.npu_pim.kernels.machine import run_all
from pimloom.energy.npu_pim import activate_note
from pimloom.mappers.packing import round_robin
from pimloom.outputs import check_outputs
from pimloom.progress import progress_bar
from pimloom.reports.terminal.decoding import show_decoded, show_served, show_source
from pimloom.systems.devices.npu_pim.parallel import smallest_batch
from pimloom.systems.devices.npu_pim.served import Served
from pimloom.systems.devices.traits import traits
from pimloom.systems.serving.batching import POLICIES
from pimloom.systems.serving.data_sets import DATA_SETS
from pimloom.systems.serving.decoding import Decoded, decode_iterations, described, summary, workload_digest
from pimloom.systems.serving.machine import Batch, Plan, serve_list
from pimloom.systems.serving.requests import read_requests
from pimloom.systems.serving.trace_file import is_trace
from pimloom.systems.serving.workload import KNOWN, load_workload
from pimloom.systems.settings import parse_settings

MOST_CHANNELS = 256  # that a request list may name where none matters
MOST_ITERATIONS = 10**7  # each is kept by itself
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
    """The result, and what prints it for a person."""

    found: Served | Decoded
    show: Callable[[], None]


def serve_command(
    system: str, model: str, settings: Sequence[str], asked: Asked, *, json: str | None, quiet: bool
) -> Answer:
    """Run decode iterations as `pimloom run` was asked to. Raises UserError."""
    check_outputs({"--json": json})
    fidelity = asked.fidelity or "physical"
    _check_one_of("--policy", asked.policy or POLICIES[0], POLICIES)
    counts = {"--batch": asked.batch, "--iterations": asked.iterations, "--every": asked.every, "--pp": asked.pp}
    for option, number in counts.items():
        if number is not None and number < 1:
            raise UserError(f"{option} {number}: expected at least 1")
    if asked.iterations is not None and asked.iterations > MOST_ITERATIONS:
        raise UserError(f"--iterations {asked.iterations}: expected at most {MOST_ITERATIONS}")
    requests = asked.requests
    if requests is None:
        raise UserError(
            f"--requests: expected a CSV list (seq_len,ch_idx or seq_len), {KNOWN}; or write --prompt P --generate N"
        )
    llm = load_llm(model)
    asked = asked._replace(fidelity=fidelity, layers=layers_of(llm, asked.layers))
    hardware = load_faithful(system, settings, fidelity)
    _check_traits(hardware, asked)
    listed = _is_list(requests)
    check_outputs({"--json": json})  # once more: by now its inputs have been read
    answer = (_one_list if listed else _workload)(hardware, llm, asked, quiet)
    if not quiet:
        _note_energy(hardware)
    return answer


def layers_of(llm: LlmSpec, asked: int | None) -> int:
    """Layers of an iteration, all if None. Raises UserError."""
    if asked is not None and not 1 <= asked <= llm.num_hidden_layers:
        raise UserError(f"--layers {asked}: expected 1 to {llm.num_hidden_layers}, the layers of {llm.name}")
    return asked or llm.num_hidden_layers


def load_faithful(system: str, settings: Sequence[str], fidelity: str) -> System:
    """A system with overrides, an NPU with or without the faults of its own simulator. Raises UserError."""
    _check_one_of("--fidelity", fidelity, FIDELITIES)
    changed = parse_settings(settings)
    if traits(load_system(system).spec.kind).faults:
        changed = {f"faults.{name}": FIDELITIES[fidelity] for name in Faults.__struct_fields__} | changed
    return load_system(system, changed)


def _check_traits(system: System, asked: Asked) -> None:
    """Raise UserError for options of machines that this one is not."""
    has = traits(system.spec.kind)
    unknown = {
        "--fidelity released": ("it has no faults to turn on", not has.faults and asked.fidelity == "released"),
        f"--pp {asked.pp}": ("without pipelines", not has.pipelines and asked.pp > 1),
        f"--policy {asked.policy}": ("its memory has no channels", not has.channels and asked.policy is not None),
    }
    for option, (why, given) in unknown.items():
        if given:
            raise UserError(f"{option}: {system.name} is {has.what}, {why}; leave it out")


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
    """Raise UserError for options of many iterations; one iteration is what a list has."""
    many = {"--batch": asked.batch, "--iterations": asked.iterations, "--every": asked.every}
    for option, number in many.items():
        if number is not None and (option == "--batch" or number > 1):
            raise UserError(
                f"{option} {number}: {asked.requests} lists the contexts of one iteration; leave {option} out or "
                "give --requests a data set or a trace"
            )


def _one_list(hardware: System, llm: LlmSpec, asked: Asked, quiet: bool) -> Answer:
    """One iteration of a list of contexts."""
    _refuse_many(asked)
    assert asked.requests and asked.layers and asked.fidelity
    spec, path = hardware.spec, Path(asked.requests)
    has = traits(spec.kind)
    channels = spec.dram.channels if spec.kind == "npu_pim" else MOST_CHANNELS
    tokens, channel = read_requests(path, channels)
    if asked.policy and channel is not None:
        raise UserError(f"--policy {asked.policy}: {path} gives the channels; leave one of the two out")
    if has.channels and asked.policy == "round-robin":
        channel = round_robin(tokens.tolist(), channels)
    plan = Plan(len(tokens), 1, 1, None, asked.seed, asked.tp, asked.pp, asked.layers, asked.fidelity)
    with progress_bar(f"{llm.name} on {hardware.name}", quiet, run_all if has.channels else None):
        found = serve_list(hardware, llm, Batch(tokens, channel), plan)
    if not quiet:
        _note_long(llm, int(tokens.max()))
        _note_undivided(hardware, llm, Batch(tokens, channel), asked)
    return Answer(found, lambda: show_served(found))


def _note_energy(system: System) -> None:
    """Say on stderr where the currents of a memory leave little or no energy for an ACT."""
    if system.spec.kind == "npu_pim" and system.spec.energy and system.part and (why := activate_note(system.part)):
        print(f"pimloom: note: {why}", file=sys.stderr)


def _note_undivided(system: System, llm: LlmSpec, batch: Batch, asked: Asked) -> None:
    """Say on stderr that there are too few requests for sub-batches in the batch, or in its smallest micro-batch."""
    if system.spec.kind != "npu_pim":
        return
    requests = smallest_batch(system, llm, *batch, tp=asked.tp, pp=asked.pp)
    if requests < (n := system.spec.interleave.sub_batches):
        which = f"the batch of {requests} runs" if asked.pp == 1 else f"micro-batches, the smallest of {requests}, run"
        print(f"pimloom: note: {which} undivided, as {n} sub-batches need more", file=sys.stderr)


def _note_long(llm: LlmSpec, longest: int) -> None:
    """Say on stderr what becomes of contexts of a list that are longer than the model's positions or its window."""
    most, window = llm.max_position_embeddings, llm.widest_window
    if window and longest > window:
        said = f"{llm.name} attends to the last {window:,} tokens; of longer contexts only those are simulated"
    elif longest > most:
        said = f"{llm.name} has positions for {most:,} tokens; contexts of up to {longest:,} are simulated"
    else:
        return
    print(f"pimloom: note: {said}", file=sys.stderr)


def _workload(hardware: System, llm: LlmSpec, asked: Asked, quiet: bool) -> Answer:
    """Iterations of a data set or a trace."""
    assert asked.requests and asked.layers and asked.fidelity
    workload, has = load_workload(asked.requests, seed=asked.seed), traits(hardware.spec.kind)
    if asked.batch is None:
        many = "most requests at once" if workload.timed else "how many requests are kept alive"
        raise UserError(f"--batch: expected {many}, as --requests {asked.requests} does not say it")
    plan = Plan(
        asked.batch,
        asked.iterations or 1,
        asked.every or 1,
        asked.policy or POLICIES[0] if has.channels else None,
        asked.seed,
        asked.tp,
        asked.pp,
        asked.layers,
        asked.fidelity,
    )
    with progress_bar(f"{llm.name} on {hardware.name}", quiet, run_all if has.channels else None) as progress:
        done, served = decode_iterations(hardware, llm, workload, plan, lambda n: progress(n, plan.iterations))
    source = described(workload, plan)
    if plan.iterations > 1 or not has.lists:
        decoded = summary(hardware, llm, plan, workload, done, served)
        return Answer(decoded, lambda: show_decoded(decoded))
    asked_for = workload_digest(hardware, llm, workload, plan)
    found = msgspec.structs.replace(served[0], workload=source, spec_digest=asked_for)

    def show() -> None:
        show_source(source)
        show_served(found)

    return Answer(found, show)
