"""What a user asks of a system that serves requests as they arrive, checked and read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.name_units import counted
from pimloom.arch.system import System, load_system, spec_digest
from pimloom.systems.asked import Work
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.devices.traits import has_outside, settled
from pimloom.systems.serving.asked import layers_of
from pimloom.systems.serving.clock.cluster import ROUTERS
from pimloom.systems.serving.online.limits import parse_slo
from pimloom.systems.serving.online.named import ONE_STAGE, ONLY, Limits, check_name, scheduler_of
from pimloom.systems.serving.online.outcome import Online
from pimloom.systems.serving.online.running import Plan, serve_online
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.systems.serving.transforms.asked import room, transform_of
from pimloom.systems.serving.transforms.transform import Transform
from pimloom.systems.settings import parse_settings
from pimloom.workload.decoding.density import density_of
from pimloom.workload.decoding.formats import format_of
from pimloom.workload.requests.arrivals import drawn_lengths, drawn_ps, parse_arrivals
from pimloom.workload.requests.data_sets import DATA_SETS
from pimloom.workload.requests.read import read
from pimloom.workload.requests.table import Requests, first

BATCH = 256  # requests that run at most [recalled: vLLM's max_num_seqs]
MOST_REQUESTS = 10**6  # each is kept by itself
LENGTHS = "sharegpt"


class Wanted(NamedTuple):
    """The options of `pimloom serve`, as typed; None where not given."""

    system: str
    model: str
    trace: Path | None = None
    arrivals: str | None = None
    lengths: str | None = None
    requests: int | None = None
    scheduler: str = "vllm-v1"
    batch_tokens: int | None = None
    batch: int | None = None
    block_size: int = 16
    blocks: int | None = None
    prefix_cache: bool | None = None
    long_prompt: int | None = None
    chunked: bool = False
    swap: int | None = None
    cut: bool = False
    replicas: int = 1
    router: str = "round-robin"
    tp: int = 1
    pp: int = 1
    layers: int | None = None
    lm_head: bool | None = None
    slo: str | None = None
    exact: bool = False
    sample: int = 8
    speculate: str | None = None
    branches: str | None = None
    shared_kv: bool = False
    weights: str | None = None
    density: str | None = None
    settings: Sequence[str] | None = None
    json: str | None = None
    seed: int = 0
    quiet: bool = False


def online_work(wanted: Wanted) -> Work[Online]:
    """Requests served on a system. Raises UserError."""
    llm = load_llm(wanted.model)
    _check_numbers(wanted)
    check_name(wanted.scheduler)
    if wanted.router not in ROUTERS:
        raise UserError(
            f"--router {wanted.router}: expected one of {', '.join(ROUTERS)}{nearest(wanted.router, ROUTERS)}"
        )
    slo = None if wanted.slo is None else parse_slo(wanted.slo)
    system = load_system(wanted.system, parse_settings(wanted.settings or ()))
    requests = _requests_of(wanted)
    drawn = wanted.trace is None and requests.name in DATA_SETS  # of other models
    requests, cut = _within_positions(llm, requests, wanted.cut or drawn)
    share = _share(wanted, llm)
    device, lm_head = _device(system, llm, share, wanted.lm_head)
    transform = transform_of(
        system, llm, share, speculate=wanted.speculate, branches=wanted.branches, shared=wanted.shared_kv,
        scheduler=wanted.scheduler, chunked=wanted.chunked, seed=wanted.seed,
    )  # fmt: skip
    limits = _limits(wanted, system, llm, device, requests, transform)
    _check_all_fit(wanted, limits, requests, transform)
    plan = Plan(
        wanted.scheduler, limits, wanted.replicas, wanted.router, wanted.pp, wanted.exact, wanted.sample, wanted.seed,
        transform,
    )  # fmt: skip
    named = _named(wanted, system, llm, requests, plan, lm_head)
    notes = [*_notes(wanted, cut), *(transform.notes if transform else ())]
    return Work(
        f"{llm.name} on {system.name}",
        lambda progress: serve_online(device, requests, plan, slo, named, progress),
        lambda: notes,
    )


def _check_numbers(wanted: Wanted) -> None:
    least = {
        "requests": wanted.requests, "batch-tokens": wanted.batch_tokens, "batch": wanted.batch, "swap": wanted.swap,
        "block-size": wanted.block_size, "blocks": wanted.blocks, "long-prompt": wanted.long_prompt,
        "replicas": wanted.replicas, "tp": wanted.tp, "pp": wanted.pp,
    }  # fmt: skip
    for name, value in least.items():
        if value is not None and not 1 <= value <= MOST_REQUESTS * 1000:
            raise UserError(f"--{name} {value}: expected at least 1")
    if wanted.sample < 0:
        raise UserError(f"--sample {wanted.sample}: expected at least 0")
    if wanted.requests is not None and wanted.requests > MOST_REQUESTS:
        raise UserError(f"--requests {wanted.requests}: expected at most {MOST_REQUESTS}")
    only = {"chunked": wanted.chunked, "swap": wanted.swap, "long-prompt": wanted.long_prompt}
    only |= {"prefix-cache": wanted.prefix_cache}
    fields = {"chunked": "chunked", "swap": "host", "long-prompt": "threshold", "prefix-cache": "prefix"}
    for name, given in only.items():
        if given and (scheduler := ONLY[fields[name]]) != wanted.scheduler:
            raise UserError(f"--{name}: belongs to --scheduler {scheduler}, not {wanted.scheduler}; leave it out")
    if wanted.pp > 1 and wanted.scheduler in ONE_STAGE:
        raise UserError(f"--pp {wanted.pp}: {wanted.scheduler} has one stage here; take vidur-vllm, sarathi or orca")


def _requests_of(wanted: Wanted) -> Requests:
    """From a file, or drawn."""
    if wanted.trace is None and wanted.arrivals is None:
        raise UserError("--trace: expected a file of requests; or write --arrivals poisson:2/s --requests N")
    if wanted.trace is not None:
        if wanted.lengths is not None:
            raise UserError(
                f"--lengths {wanted.lengths}: {wanted.trace} has lengths of its own; leave one of the two out"
            )
        found = first(read(wanted.trace), wanted.requests)
        if wanted.arrivals is None:
            return found
        note = f"lengths of the trace, arrivals {wanted.arrivals}, seed {wanted.seed}"
        at = drawn_ps(parse_arrivals(wanted.arrivals), len(found.prompt), wanted.seed)
        return found._replace(arrival_ps=at, note=note)
    assert wanted.arrivals is not None
    arrivals, lengths = parse_arrivals(wanted.arrivals), wanted.lengths or LENGTHS
    if wanted.requests is None:
        raise UserError(f"--requests: expected how many come with --arrivals {wanted.arrivals}")
    at = drawn_ps(arrivals, wanted.requests, wanted.seed)
    prompt, output, note = drawn_lengths(lengths, wanted.requests, wanted.seed)
    return Requests(lengths, at, prompt, output, f"arrivals {wanted.arrivals}, seed {wanted.seed}; {note}")


def _within_positions(llm: LlmSpec, requests: Requests, cut: bool) -> tuple[Requests, int]:
    """None longer than the model; how many were cut. Raises UserError."""
    most, prompts, outputs = llm.max_position_embeddings, list(requests.prompt), list(requests.output)
    long = [i for i, n in enumerate(prompts) if n + outputs[i] - 1 > most]
    if long and not cut:
        i = long[0]
        raise UserError(
            f"{requests.name}: request {i} of {prompts[i]:,} + {outputs[i]:,} tokens does not fit the {most:,} "
            f"positions of {llm.name}, nor do {len(long) - 1:,} more; take a model with more, or --cut prompts"
        )
    for i in long:
        outputs[i] = min(outputs[i], most)
        prompts[i] = min(prompts[i], most - outputs[i] + 1)
    return requests._replace(prompt=prompts, output=outputs), len(long)


def _share(wanted: Wanted, llm: LlmSpec) -> Share:
    layers = layers_of(llm, wanted.layers)
    if wanted.pp > layers:
        raise UserError(f"--pp {wanted.pp}: expected at most {layers}, the layers")
    weights = None if wanted.weights is None else format_of(wanted.weights)
    density = None if wanted.density is None else density_of(wanted.density)
    return Share(wanted.tp, -(-layers // wanted.pp), outside=wanted.lm_head, weights=weights, density=density)


def _device(system: System, llm: LlmSpec, share: Share, lm_head: bool | None) -> tuple[Device, bool]:
    """With embedding, LM head and sampling unless asked otherwise, where the system can have them."""
    if lm_head is not None:
        return device_of(system, llm, share), lm_head
    try:
        return device_of(settled(system, True)[0], llm, share._replace(outside=True)), True
    except UserError:
        return device_of(system, llm, share), has_outside(system, None)


def _limits(
    wanted: Wanted, system: System, llm: LlmSpec, device: Device, requests: Requests, transform: Transform | None
) -> Limits:
    tokens, size = room(device, transform).tokens, wanted.block_size
    fit = tokens // size
    if fit < 2:
        raise UserError(
            f"{llm.name}: beside its weights keys and values of {tokens:,} tokens fit on {system.name}, less than two "
            f"blocks of {size}; share it over more devices (--tp)"
        )
    if wanted.blocks is not None and wanted.blocks > fit:
        raise UserError(f"--blocks {wanted.blocks}: {fit:,} blocks of {size} tokens fit beside the weights")
    batch = wanted.batch or BATCH
    if device.most_requests is not None and batch > device.most_requests:
        if wanted.batch is not None:
            most = counted(device.most_requests, "request")
            raise UserError(f"--batch {batch}: {system.name} runs at most {most} at once")
        batch = device.most_requests
    branches = transform.branches if transform else 1
    if device.most_requests is not None and branches > device.most_requests:
        raise UserError(f"--branches {branches}: {system.name} runs at most {device.most_requests} at once")
    prefix = requests.prefix if wanted.scheduler == ONLY["prefix"] and wanted.prefix_cache is not False else None
    if wanted.prefix_cache and prefix is None:
        raise UserError(f"--prefix-cache: {requests.name} does not say what prompts share; leave it out")
    if prefix:
        prefix.block(0, 0, size)  # it says whether it has blocks of such a size
    return Limits(
        wanted.blocks or fit, size, batch, wanted.batch_tokens, llm.max_position_embeddings, wanted.pp, prefix,
        wanted.long_prompt or 0, wanted.chunked, wanted.swap or 0, branches,
    )  # fmt: skip


def _check_all_fit(wanted: Wanted, limits: Limits, requests: Requests, transform: Transform | None) -> None:
    """Raise UserError for a request that could never run."""
    scheduler = scheduler_of(wanted.scheduler, limits)
    for i, (prompt, output) in enumerate(zip(requests.prompt, requests.output, strict=True)):
        live = LiveRequest(i, 0, prompt, output)
        if transform:
            transform.dress([live])
        if why := scheduler.never(live):
            raise UserError(f"{requests.name}: request {i} {why} under {wanted.scheduler}; it could never run")


def _named(
    wanted: Wanted, system: System, llm: LlmSpec, requests: Requests, plan: Plan, lm_head: bool
) -> dict[str, Any]:
    """Fields of the result that are known before."""
    layers, limits = layers_of(llm, wanted.layers), plan.limits
    table = [requests.arrival_ps, requests.prompt, requests.output]
    asked = {name: value for name, value in limits._asdict().items() if name not in ("prefix", "branches")}
    shared = None if limits.prefix is None else msgspec.to_builtins(limits.prefix)
    settled_system, outside = settled(system, wanted.lm_head)
    digest = spec_digest(
        settled_system, llm, **asked, **outside, tp=wanted.tp, layers=layers, scheduler=plan.scheduler, requests=table,
        prefix=shared, **_transformed(wanted), replicas=plan.replicas, router=plan.router, exact=plan.exact,
        sample=plan.sample, seed=plan.seed,
        slo=wanted.slo,
    )  # fmt: skip
    return {
        "system": system.name, "model": llm.name, "tp": wanted.tp, "layers": layers, "lm_head": lm_head,
        "model_layers": llm.num_hidden_layers, "spec_digest": digest,
        "workload": {"name": requests.name, "note": requests.note}, "transforms": _transformed(wanted),
    }  # fmt: skip


def _transformed(wanted: Wanted) -> dict[str, Any]:
    """Transforms that are asked for."""
    of = {name: getattr(wanted, name) for name in ("speculate", "branches", "shared_kv", "weights", "density")}
    return {name: value for name, value in of.items() if value}


def _notes(wanted: Wanted, cut: int) -> list[str]:
    found = list[str]()
    if cut:
        found.append(f"{counted(cut, 'request')} cut to the positions of the model")
    if wanted.pp > 1:
        found.append("what pipeline stages send one another takes no time here")
    if wanted.swap:
        found.append("blocks that are swapped move in no time here")
    return found
