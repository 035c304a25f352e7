"""What a user asks of a system that decodes many requests: a list of contexts, a data set or a trace."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.load import nearest
from pimloom.arch.neupims import Faults
from pimloom.arch.system import System, kind_named, load_system
from pimloom.mappers.packing import round_robin
from pimloom.systems.asked import Asked, Progress, Work
from pimloom.systems.devices.boundary import energy_by_cell
from pimloom.systems.devices.npu_pim.served import Served
from pimloom.systems.devices.padded import padded_notes
from pimloom.systems.devices.routing import check_routing, routing_notes
from pimloom.systems.devices.traits import Traits, traits
from pimloom.systems.serving.batching import POLICIES
from pimloom.systems.serving.decoding import (
    Decoded,
    decode_iterations,
    described,
    summary,
    workload_digest,
)
from pimloom.systems.serving.devices import on_devices
from pimloom.systems.serving.machine import Batch, Middle, Plan, serve_list
from pimloom.systems.serving.notes import (
    channelled,
    cut_notes,
    energy_notes,
    long_notes,
    one_note,
    undivided_notes,
    unplaced_notes,
)
from pimloom.systems.serving.requests import check_header, read_requests
from pimloom.systems.serving.workload import KNOWN, load_workload
from pimloom.systems.settings import parse_settings
from pimloom.workload.requests.data_sets import DATA_SETS
from pimloom.workload.requests.trace_file import is_trace

MOST_CHANNELS = 256  # that a request list may name where none matters
MOST_ITERATIONS = 10**7  # each is kept by itself
Found = TypeVar("Found")
FIDELITIES = {"released": "true", "physical": "false"}


class Deployment(NamedTuple):
    """What decodes: `layers` of a model on `pp` groups of `tp` systems, with or without their simulator's faults."""

    system: System
    llm: LlmSpec
    tp: int
    pp: int
    layers: int
    fidelity: str

    @property
    def has(self) -> Traits:
        """What its kind has."""
        return traits(self.system.spec.kind)

    def work(self, run: Callable[[Progress], Found], rows: int, notes: Callable[[], Sequence[str]]) -> Work[Found]:
        """The work, with notes on padding, the experts of a step of `rows` tokens, and energy that is left out."""
        title, padded = f"{self.llm.name} on {self.system.name}", padded_notes(self.system, self.llm, self.tp)
        chosen = routing_notes(self.system, self.llm, rows)
        return Work(title, run, lambda: [*self.llm.notes, *notes(), *padded, *chosen, *energy_notes(self.system)])


def batch_work(asked: Asked) -> Work[Served | Decoded]:
    """Decode iterations of a batch. Raises UserError."""
    llm = load_llm(asked.model)  # before options: an unknown model, or a file that is none, is what is wrong first
    listed = asked.requests is not None and _is_list(asked.requests)
    _check_one_of("--policy", asked.policy or POLICIES[0], POLICIES)
    counts = {"--batch": asked.batch, "--iterations": asked.iterations, "--every": asked.every, "--pp": asked.pp}
    counts |= {"--chunk": asked.chunk}
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
    there = _deployment(asked, llm)
    _check_traits(there, asked)
    _check_ends(there, asked, listed)
    if asked.chunk is not None:
        _check_prompts(there, asked, listed)
    return _list_work(there, asked, Path(requests)) if listed else _workload_work(there, asked, requests)


def _deployment(asked: Asked, llm: LlmSpec) -> Deployment:
    fidelity, layers = asked.fidelity or "physical", layers_of(llm, asked.layers)
    system, tp = load_sharing(asked.system, asked.settings, fidelity, asked.tp)
    check_routing(system, llm)
    return Deployment(system, llm, tp, 1 if asked.pp is None else asked.pp, layers, fidelity)


def layers_of(llm: LlmSpec, asked: int | None) -> int:
    """Layers of an iteration, all if None. Raises UserError."""
    if asked is not None and not 1 <= asked <= llm.num_hidden_layers:
        raise UserError(f"--layers {asked}: expected 1 to {llm.num_hidden_layers}, the layers of {llm.name}")
    return asked or llm.num_hidden_layers


def load_faithful(system: str, settings: Sequence[str] | None, fidelity: str, command: str | None = "run") -> System:
    """A system with overrides. fidelity: whether an NPU has the deviations of its own simulator; command: as in
    `load_system`. Raises UserError."""
    _check_one_of("--fidelity", fidelity, FIDELITIES)
    changed = parse_settings(settings or ())
    if traits(kind_named(system)).departures:
        changed = {f"faults.{name}": FIDELITIES[fidelity] for name in Faults.__struct_fields__} | changed
    return load_system(system, changed, command)


def load_sharing(
    system: str, settings: Sequence[str] | None, fidelity: str, tp: int | None, command: str | None = "run"
) -> tuple[System, int]:
    """The same system, and the number of devices that share each layer. tp: as given. Raises UserError."""
    return on_devices(lambda more: load_faithful(system, [*(settings or ()), *more], fidelity, command), tp)


def _check_traits(there: Deployment, asked: Asked) -> None:
    """Raise UserError for options of machines that this one is not."""
    has = there.has
    unknown = {
        "--fidelity released": ("it has no faults to turn on", not has.released and there.fidelity == "released"),
        f"--pp {asked.pp}": ("and only NPUs have pipelines", not has.pipelines and there.pp > 1),
        f"--policy {asked.policy}": ("and only NPUs place requests", not has.channels and asked.policy is not None),
    }
    for option, (why, given) in unknown.items():
        if given:
            raise UserError(f"{option}: {there.system.name} is {has.what}, {why}; leave it out")
    if asked.policy and not channelled(there.system):
        raise UserError(
            f"--policy {asked.policy}: {there.system.name} has no PIM, so caches lie in all channels and no request in "
            "one; leave it out, or take an NPU with PIM, such as neupims"
        )


def _check_prompts(there: Deployment, asked: Asked, listed: bool) -> None:
    """Raise UserError for options that do not go with prompts that are computed beside decode."""
    unknown = {
        f"--every {asked.every}": asked.every is not None and asked.every > 1,
        f"--policy {asked.policy}": asked.policy is not None,
        f"--pp {asked.pp}": there.pp > 1,
        "--fidelity released": there.fidelity == "released",
        f"--requests {asked.requests}": listed,
    }
    for option, given in unknown.items():
        if given:
            raise UserError(f"{option}: does not go with --chunk, which computes prompts beside decode; leave one out")
    if asked.chunk is not None and asked.batch is not None and asked.chunk < asked.batch:
        raise UserError(
            f"--chunk {asked.chunk}: expected at least the {asked.batch} of --batch, as each request that decodes "
            "takes a token of it"
        )


def _check_one_of(option: str, value: str, known: Sequence[str] | dict[str, str]) -> None:
    if value not in known:
        raise UserError(f"{option} {value}: expected one of {', '.join(known)}{nearest(value, known)}")


def _is_list(requests: str) -> bool:
    """Whether the requests are contexts of one iteration, not a workload. Raises UserError for a file of neither."""
    path = Path(requests)
    if requests in DATA_SETS or not path.exists():
        return False
    if not path.is_dir():
        if is_trace(path):
            return False
        check_header(path)
    return True


def _check_ends(there: Deployment, asked: Asked, listed: bool) -> None:
    """Raise UserError where embedding, LM head and sampling are asked for, and only layers are simulated."""
    if not asked.lm_head:
        return
    unknown = {
        f"{asked.requests} lists the contexts of one iteration, whose stages are those of the layers; leave --lm-head "
        "out or give --requests a data set or a trace": listed,
        f"the stages of a pipeline (--pp {asked.pp}) hold layers only; leave one of the two out": there.pp > 1,
    }
    for why, given in unknown.items():
        if given:
            raise UserError(f"--lm-head: {why}")


def _refuse_many(asked: Asked) -> None:
    """Raise UserError for options of many iterations; one iteration is what a list has."""
    many = {"--batch": asked.batch, "--iterations": asked.iterations, "--every": asked.every}
    for option, number in many.items():
        if number is not None and (option == "--batch" or number > 1):
            raise UserError(
                f"{option} {number}: {asked.requests} lists the contexts of one iteration; leave {option} out or "
                "give --requests a data set or a trace"
            )


def _list_work(there: Deployment, asked: Asked, path: Path) -> Work[Served]:
    """One iteration of a list of contexts."""
    system, llm, spec = there.system, there.llm, there.system.spec
    channels = spec.dram.channels if spec.kind == "npu_pim" else MOST_CHANNELS
    tokens, channel = read_requests(path, channels)
    _refuse_many(asked)
    if asked.seed:
        raise UserError(f"--seed {asked.seed}: {path} draws nothing; leave it out")
    if not there.has.lists:
        raise UserError(f"--requests {path}: {system.name} takes no list of contexts; give a data set or a trace")
    if asked.policy and channel is not None:
        raise UserError(f"--policy {asked.policy}: {path} gives the channels; leave one of the two out")
    placed = None if channel is None else f"{path.name}: ch_idx"
    if there.has.channels and asked.policy == "round-robin":
        channel = round_robin(tokens.tolist(), channels)
    batch = Batch(tokens, channel)
    plan = Plan(len(tokens), 1, 1, None, asked.seed, there.tp, there.pp, there.layers, there.fidelity)

    def run(progress: Progress) -> Served:
        found = _with_cells(serve_list(system, llm, batch, plan), system, plan.tp)
        found.showing(lambda: Middle(None, batch).shown(system, llm, plan))
        return found

    return there.work(
        run,
        len(tokens),
        lambda: [
            *(unplaced_notes(system, placed) if placed else []),
            *long_notes(llm, int(tokens.max())),
            *undivided_notes(system, llm, batch, there.tp, there.pp),
        ],
    )


def _with_cells(found: Served, system: System, tp: int) -> Served:
    """The same result with its energy by cell of the ledger."""
    if (joules := found.iteration_energy_by_cause_j) is None:
        return found
    return msgspec.structs.replace(found, energy_by_cell=energy_by_cell(system, joules, tp))


def _workload_work(there: Deployment, asked: Asked, requests: str) -> Work[Served | Decoded]:
    """Iterations of a data set or a trace."""
    system, llm = there.system, there.llm
    workload = load_workload(requests, seed=asked.seed)
    if asked.batch is None:
        many = "most requests at once" if workload.timed else "how many requests are kept alive"
        raise UserError(f"--batch: expected {many}, as --requests {requests} does not say it")
    policy = asked.policy or POLICIES[0] if there.has.channels and not asked.chunk else None
    devices = (there.tp, there.pp, there.layers, there.fidelity)
    iterations = asked.iterations or (None if asked.chunk and workload.timed else 1)
    plan = Plan(asked.batch, iterations, asked.every or 1, policy, asked.seed, *devices, asked.chunk, asked.lm_head)
    total = plan.iterations or len(workload.arrival_s)

    def run(progress: Progress) -> Served | Decoded:
        batches = list[Any]()
        done, served = decode_iterations(system, llm, workload, plan, lambda n: progress(n, total), batches)
        found: Served | Decoded
        if plan.iterations != 1 or plan.chunk or plan.outside or not there.has.lists:
            found = summary(system, llm, plan, workload, done, served)
        else:
            whence, digest = described(workload, plan, llm), workload_digest(system, llm, workload, plan)
            one = msgspec.structs.replace(served[0], workload=whence, spec_digest=digest)
            found = _with_cells(one, system, plan.tp)
        middle = Middle.of(batches)
        found.showing(lambda: middle.shown(system, llm, plan))
        return found

    short = asked.iterations is None and workload.timed and not plan.chunk
    return there.work(run, asked.batch, lambda: [*cut_notes(llm, workload), *([one_note(workload)] if short else [])])
