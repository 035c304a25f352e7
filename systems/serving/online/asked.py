"""What a user asks of a system that serves requests as they arrive, checked and read."""

from collections.abc import Sequence
from functools import partial
from math import sqrt

from msgspec.structs import replace

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.name_units import counted
from pimloom.arch.system import System
from pimloom.systems.asked import Work
from pimloom.systems.devices.traits import devices_of
from pimloom.systems.serving.clock.cluster import ROUTERS
from pimloom.systems.serving.online.channels import nowhere
from pimloom.systems.serving.online.pools import Both, kv_bytes, prompts_of, serve_pools
from pimloom.systems.serving.online.prepared import FILES, Source, prepared
from pimloom.systems.serving.online.running import Progress, Service, serve_online
from pimloom.systems.serving.online.together import Found, finetuning, overlapping, shared_out, unfilled
from pimloom.systems.serving.options.named import IN_POOLS, ONE_STAGE, SCHEDULERS, SHARING, STAGES_IN_POOLS, check_name
from pimloom.systems.serving.options.prices import parse_price
from pimloom.systems.serving.options.spans import MOST_REQUESTS, check_count, check_replicas, check_span
from pimloom.systems.serving.options.strays import check_only, check_strays
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.pools.written import AFTER, SIDES, SUCH_AS, TRANSFERS, Pools, parse_pools
from pimloom.systems.serving.results.backlog import warning
from pimloom.systems.serving.results.goodput import (
    Goodput,
    RateTrials,
    at_a_rate,
    at_rate,
    find,
    parse_rates,
    served_steadily,
)
from pimloom.systems.serving.results.outcome import Online
from pimloom.systems.settings import settings_by_pool
from pimloom.workload.requests.arrivals import drawn_lengths, drawn_ps, parse_arrivals
from pimloom.workload.requests.data_sets import DATA_SETS
from pimloom.workload.requests.read import read
from pimloom.workload.requests.table import Requests, first, repeated

MOST_COUNT = 10**9  # of anything else
LENGTHS = "sharegpt"


def online_work(
    wanted: Wanted,
    source: Source = FILES,
    llm: LlmSpec | None = None,
    trace: Requests | None = None,
    reading: Progress = lambda done, total: None,
) -> Work[Online | Goodput]:
    """Requests served on a system. source, llm, trace: in place of files that `wanted` names. reading: progress of
    reading a trace. Raises UserError."""
    llm = llm or load_llm(wanted.model)
    _check_words(wanted)
    check_strays(wanted)
    given = requests_of(wanted, reading) if trace is None else _timed(wanted, first(trace, wanted.requests))
    requests, cut = _fitting(wanted, llm, given)
    pools = _written(wanted)
    rates = _rates(wanted, requests)
    requests = requests if rates is None else repeated(requests, 1)
    found = _found(wanted, pools, llm, requests, source)
    notes, steadiness = [*_notes(wanted, pools, requests, cut), *found.notes], list[str]()

    def run(progress: Progress) -> Online | Goodput:
        if rates is None:
            online = found.serve(requests, progress, False, True)
            steadiness.extend(warning(online.backlog, len(requests.prompt)))
            return online
        return _searched(wanted, requests, rates, found, progress)

    return Work(f"{llm.name} on {wanted.system}", run, lambda: [*llm.notes, *notes, *found.after(), *steadiness])


def _searched(
    wanted: Wanted, requests: Requests, rates: tuple[float, float], found: Found, progress: Progress
) -> Goodput:
    measured = wanted.sample > 0 and not wanted.exact
    if measured:  # correct prices before rates are compared
        found.serve(at_rate(requests, sqrt(rates[0] * rates[1])), progress, True, True)
    best = find(_stream(wanted, requests, found), rates, wanted.share, found.devices, progress)
    of_best = found.serve(at_rate(requests, best.goodput_per_s), progress, True, measured)
    return replace(best, pricing=of_best.pricing)


def goodput_on(
    source: Source, llm: LlmSpec, wanted: Wanted, trace: Requests | None
) -> tuple[Goodput, Sequence[tuple[System, int]]]:
    """The highest rate that the systems of a source hold, and the systems with their numbers of devices. trace:
    requests in place of those of `wanted.trace`. Raises UserError, also if the lowest rate does not hold."""
    _check_words(wanted)
    check_strays(wanted)
    given = requests_of(wanted) if trace is None else _timed(wanted, first(trace, wanted.requests))
    requests, _ = _fitting(wanted, llm, given)
    rates = _rates(wanted, requests)
    assert rates is not None
    requests = repeated(requests, 1)
    found = _found(wanted, _written(wanted), llm, requests, source)
    return _searched(wanted, requests, rates, found, lambda done, total: None), found.on


def _stream(wanted: Wanted, requests: Requests, found: Found) -> RateTrials:
    """Repeats requests; drawn arrivals are continued instead."""
    arrivals = None if wanted.arrivals is None else parse_arrivals(wanted.arrivals)

    def longer(times: int) -> Requests:
        more = repeated(requests, times)
        if arrivals is None:
            return more
        return more._replace(arrival_ps=drawn_ps(arrivals, len(more.prompt), wanted.seed))

    return RateTrials(len(requests.prompt), longer, lambda some, progress: found.serve(some, progress, True, False))


def served_on(
    source: Source, llm: LlmSpec, wanted: Wanted, trace: Requests | None, rate: float | None
) -> tuple[Online, Sequence[tuple[System, int]]]:
    """Requests served on systems of a source, and these with how many devices each; a limit that none holds is no
    error. trace: requests that were read, in place of `wanted.trace`; rate: so many come in a second, over and over,
    until the run is steady, and latencies are those between warm-up and end. Raises UserError."""
    _check_words(wanted)
    requests, _ = _fitting(
        wanted, llm, _drawn(wanted) if trace is None else _timed(wanted, first(trace, wanted.requests))
    )
    requests = requests if rate is None else repeated(at_a_rate(requests, "rate"), 1)
    found = _found(wanted, _written(wanted), llm, requests, source)
    if rate is None:
        return found.serve(requests, lambda done, total: None, True, True), found.on
    pricing = found.serve(at_rate(requests, rate), lambda done, total: None, True, True).pricing
    return replace(served_steadily(_stream(wanted, requests, found), rate).told(), pricing=pricing), found.on


def _written(wanted: Wanted) -> Pools | None:
    """Pools, if they are asked for."""
    return parse_pools(wanted.system, None if wanted.overlap and "=" not in wanted.system else wanted.link)


def _found(wanted: Wanted, pools: Pools | None, llm: LlmSpec, requests: Requests, source: Source) -> Found:
    if pools:
        return _pools(wanted, pools, llm, requests, source)
    return (shared_out if wanted.scheduler in SHARING else _one)(wanted, llm, requests, source)


def _check_words(wanted: Wanted) -> None:
    """Raise UserError for numbers and names that cannot be."""
    _check_numbers(wanted)
    check_name(wanted.scheduler)
    if wanted.router not in ROUTERS:
        raise UserError(
            f"--router {wanted.router}: expected one of {', '.join(ROUTERS)}{nearest(wanted.router, ROUTERS)}"
        )


def _fitting(wanted: Wanted, llm: LlmSpec, requests: Requests) -> tuple[Requests, int]:
    """Requests that fit the model's positions; how many were cut. Raises UserError."""
    drawn = wanted.trace is None and requests.name in DATA_SETS  # of other models
    check_count(requests)
    check_span(requests)
    return within_positions(llm, requests, wanted.cut or drawn)


def _one(wanted: Wanted, llm: LlmSpec, requests: Requests, source: Source) -> Found:
    """On one kind of system."""
    if wanted.scheduler not in SCHEDULERS:
        raise UserError(f"--scheduler {wanted.scheduler}: serves pools, such as {SUCH_AS}; name them, and --link")
    if wanted.shares:
        raise UserError(
            f"--shares {wanted.shares}: belongs to --scheduler semi-pd, not {wanted.scheduler}; leave it out"
        )
    for name in ("transfer", "mixed"):
        if getattr(wanted, name):
            raise UserError(f"--{name}: belongs to pools, such as {SUCH_AS}; leave it out")
    by = (finetuning if wanted.finetune else overlapping)(wanted, llm, requests, source)
    apart = by.plan.transform.apart if by.plan.transform else None
    drafting = apart.devices * by.plan.replicas if apart else 0
    return Found(partial(serve_online, by), [_devices(by)], by.notes, drafting, partial(unfilled, by, llm))


def _devices(by: Service) -> tuple[System, int]:
    assert by.system is not None
    return by.system, devices_of(by.system, by.named["tp"]) * by.plan.stages * by.plan.replicas


def _pools(wanted: Wanted, pools: Pools, llm: LlmSpec, requests: Requests, source: Source) -> Found:
    """The same of pools for prompts and for decode."""
    name = wanted.scheduler
    if wanted.shares:
        raise UserError(f"--shares {wanted.shares}: belongs to --scheduler semi-pd, not {name}; leave it out")
    if name not in IN_POOLS or wanted.replicas > 1:
        raise UserError(f"{wanted.system}: pools go with --scheduler {' or '.join(IN_POOLS)}, without --replicas")
    for pool in pools[:2]:
        check_replicas(f"{wanted.system}: {pool.system}*{pool.replicas}", pool.replicas)
    stages = [pool.pp or wanted.pp for pool in pools[:2]]
    if max(stages) > 1 and name not in STAGES_IN_POOLS:
        raise UserError(f"--pp {max(stages)}: {name} has one stage here; in pools take {' or '.join(STAGES_IN_POOLS)}")
    for option in ("speculate", "branches", "mode", "shared_kv", "overlap", "finetune"):
        if getattr(wanted, option):
            raise UserError(
                f"--{option.replace('_', '-')}: {wanted.system}: pools take tokens one by one; leave it out"
            )
    if name == "distserve" and wanted.router != Wanted._field_defaults["router"]:
        raise UserError(f"--router {wanted.router}: distserve sends requests where the fewest are; leave it out")
    if wanted.mixed and name != "splitwise":
        raise UserError(f"--mixed: belongs to --scheduler splitwise, not {name}; leave it out")
    transfer = wanted.transfer or AFTER
    if transfer not in TRANSFERS:
        raise UserError(f"--transfer {transfer}: expected {' or '.join(TRANSFERS)}{nearest(transfer, TRANSFERS)}")
    settings = settings_by_pool(wanted.settings or (), SIDES)
    one, two = (
        wanted._replace(
            system=pool.system,
            settings=own,
            replicas=pool.replicas,
            tp=pool.tp or wanted.tp,
            pp=pp,
            scheduler=f"{name} {side}",
            price=None if price is None else repr(price),
        )
        for pool, pp, side, price, own in zip(
            pools[:2], stages, ("prompts", "decode"), parse_price(wanted.price, 2), settings, strict=True
        )
    )
    first = prepared(one, llm, requests if wanted.mixed else prompts_of(requests), source)
    asked: dict[str, object] = {"before": first.named["spec_digest"], "link": pools.link._asdict()} | (
        {"transfer": transfer} if transfer != AFTER else {}
    )
    asked |= {"mixed": True} if wanted.mixed else {}
    then = prepared(two._replace(prefix_cache=None), llm, requests._replace(prefix=None), source, more=asked)
    if wanted.policy and not (first.plan.limits.policy or then.plan.limits.policy):
        raise nowhere(wanted.policy, one.system, two.system)
    tokens = kv_bytes(then, then.named["tp"])
    both = Both(wanted.system, name, first, then, pools.link, tokens, transfer, wanted.mixed)
    return Found(partial(serve_pools, both), [_devices(first), _devices(then)])


def _rates(wanted: Wanted, requests: Requests) -> tuple[float, float] | None:
    """Between which the goodput is looked for; None: it is not. Raises UserError."""
    if not wanted.goodput:
        if wanted.rate is not None:
            raise UserError(f"--rate {wanted.rate}: belongs to --goodput; leave it out")
        return None
    if wanted.slo is None or wanted.rate is None:
        raise UserError("--goodput: expected limits and rates, such as --slo ttft=1s,tpot=50ms --rate 0.5:16")
    if not 0 < wanted.share <= 1:
        raise UserError(f"--share {wanted.share:g}: expected above 0 and at most 1")
    rates = parse_rates(wanted.rate)
    at_rate(at_a_rate(requests, "goodput"), rates[0])
    return rates


def _check_numbers(wanted: Wanted) -> None:
    least = {
        "requests": wanted.requests, "batch-tokens": wanted.batch_tokens, "batch": wanted.batch, "swap": wanted.swap,
        "block-size": wanted.block_size, "blocks": wanted.blocks, "long-prompt": wanted.long_prompt,
        "tp": wanted.tp, "pp": wanted.pp,
    }  # fmt: skip
    for name, value in least.items():
        most = MOST_REQUESTS if name == "requests" else MOST_COUNT
        if value is not None and not 1 <= value <= most:
            raise UserError(f"--{name} {value}: expected 1 to {most:,}")
    check_replicas(f"--replicas {wanted.replicas}", wanted.replicas)
    for name in ("sample", "num_preallocate_tokens"):
        if not 0 <= (getattr(wanted, name) or 0) <= MOST_COUNT:
            raise UserError(f"--{name.replace('_', '-')} {getattr(wanted, name)}: expected 0 to {MOST_COUNT:,}")
    if not 0 < wanted.price_error <= 1:
        raise UserError(f"--price-error {wanted.price_error:g}: expected above 0 and at most 1")
    check_only(wanted)
    if wanted.pp > 1 and wanted.scheduler in ONE_STAGE and "=" not in wanted.system:
        raise UserError(f"--pp {wanted.pp}: {wanted.scheduler} has one stage here; take vidur-vllm, sarathi or orca")


def requests_of(wanted: Wanted, reading: Progress = lambda done, total: None) -> Requests:
    """From a file, or drawn. reading: progress of reading the file. Raises UserError."""
    if wanted.trace is None and wanted.arrivals is None:
        raise UserError("--trace: expected a file of requests; or write --arrivals poisson:2/s --requests N")
    if wanted.trace is not None:
        if wanted.lengths is not None:
            raise UserError(
                f"--lengths {wanted.lengths}: {wanted.trace} has lengths of its own; leave one of the two out"
            )
        return _timed(wanted, first(read(wanted.trace, wanted.requests, reading), wanted.requests))
    return _drawn(wanted)


def _timed(wanted: Wanted, found: Requests) -> Requests:
    """Requests of a trace, with arrivals that are asked for in place of its own."""
    if wanted.arrivals is None:
        return found
    note = f"lengths of the trace, arrivals {wanted.arrivals}, seed {wanted.seed}"
    arrivals = parse_arrivals(wanted.arrivals)
    at = drawn_ps(arrivals, len(found.prompt), wanted.seed)
    return found._replace(arrival_ps=at, note=note, clients=arrivals.clients)


def _drawn(wanted: Wanted) -> Requests:
    assert wanted.arrivals is not None
    arrivals, lengths = parse_arrivals(wanted.arrivals), wanted.lengths or LENGTHS
    if wanted.requests is None:
        raise UserError(f"--requests: expected how many come with --arrivals {wanted.arrivals}")
    at = drawn_ps(arrivals, wanted.requests, wanted.seed)
    prompt, output, note = drawn_lengths(lengths, wanted.requests, wanted.seed)
    note = f"arrivals {wanted.arrivals}, seed {wanted.seed}; {note}"
    return Requests(lengths, at, prompt, output, note, clients=arrivals.clients)


def within_positions(llm: LlmSpec, requests: Requests, cut: bool) -> tuple[Requests, int]:
    """None longer than the model; how many were cut. Raises UserError."""
    most, prompts, outputs = llm.max_position_embeddings, list(requests.prompt), list(requests.output)
    long = [i for i, n in enumerate(prompts) if n + outputs[i] - 1 > most]
    if long and not cut:
        i, others = long[0], len(long) - 1
        nor = f", nor {'does' if others == 1 else 'do'} {others:,} more" if others else ""
        raise UserError(
            f"{requests.name}: request {i} of {prompts[i]:,} + {outputs[i]:,} tokens does not fit the {most:,} "
            f"positions of {llm.name}{nor}; take a model with more, or --cut prompts"
        )
    for i in long:
        outputs[i] = min(outputs[i], most)
        prompts[i] = min(prompts[i], most - outputs[i] + 1)
    return requests._replace(prompt=prompts, output=outputs), len(long)


def _notes(wanted: Wanted, pools: Pools | None, requests: Requests, cut: int) -> list[str]:
    found, there = list[str](), len(requests.prompt)
    if wanted.trace is not None and (wanted.requests or 0) > there:
        found.append(f"{requests.name} has {counted(there, 'request')}, not the {wanted.requests:,} of --requests")
    if cut:
        found.append(f"{counted(cut, 'request')} cut to the positions of the model")
    if max([pool.pp or wanted.pp for pool in pools[:2]] if pools else [wanted.pp]) > 1:
        found.append("what pipeline stages send one another takes no time here")
    if pools and pools.link.pj_per_bit is None:
        found.append("what the link needs is not in the energy; --link 400Gb/s,5pJ/bit would say it")
    if wanted.swap:
        found.append("blocks that are swapped move in no time here")
    return found
