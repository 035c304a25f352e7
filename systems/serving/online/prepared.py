"""A system with a model on it, ready to serve requests by a scheduler: its memory, its limits, what can never run."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError, of_option
from pimloom.arch.llm import LlmSpec
from pimloom.arch.name_units import counted
from pimloom.arch.system import System, load_system, spec_digest
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.devices.rest import power_at_rest_w
from pimloom.systems.devices.routing import routing_notes
from pimloom.systems.devices.traits import devices_of, has_outside, settled, traits
from pimloom.systems.devices.without_energy import unknown_links
from pimloom.systems.serving.asked import layers_of
from pimloom.systems.serving.devices import tp_of
from pimloom.systems.serving.online.channels import channels_of, rows_of
from pimloom.systems.serving.online.instead import instead_of, more_devices, no_room
from pimloom.systems.serving.online.plan import Plan
from pimloom.systems.serving.online.running import Service, service
from pimloom.systems.serving.options.named import ONLY, Limits, scheduler_of
from pimloom.systems.serving.options.prices import parse_price
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.pricing.interpolated import Interpolated
from pimloom.systems.serving.pricing.pipeline import pipeline
from pimloom.systems.serving.results.limits import parse_slo
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.systems.serving.schedulers.vllm_v1 import AHEAD
from pimloom.systems.serving.transforms.asked import capacity_left, decisive_transforms, transform_of
from pimloom.systems.serving.transforms.transform import Apart, Transform
from pimloom.systems.settings import parse_settings
from pimloom.workload.decoding.density import density_of
from pimloom.workload.decoding.formats import format_of
from pimloom.workload.need import CACHE_MANAGERS, Windowed, windowed
from pimloom.workload.requests.arrivals import parse_arrivals
from pimloom.workload.requests.table import Requests, content

PREFIX_KEEPS_ALL = "layers with a window keep all tokens of a request: shared blocks hold all layers"
BATCH = 256  # requests that run at most [recalled: vLLM's max_num_seqs]


Wrap = Callable[[Device, System], Device]


Maker = Callable[[System, LlmSpec, Share], Device]


class Source(NamedTuple):
    """Where systems and their devices come from. load: by name, with settings KEY=VALUE."""

    load: Callable[[str, Sequence[str]], System]
    maker: Maker


FILES = Source(lambda name, settings: load_system(name, parse_settings(settings), "serve"), device_of)


def prepared(
    wanted: Wanted,
    llm: LlmSpec,
    requests: Requests,
    source: Source = FILES,
    *,
    wrap: Wrap | None = None,
    more: Mapping[str, object] | None = None,
) -> Service:
    """What serves these requests; wrap: what makes of its device another one; more: what else decides the result.
    Raises UserError."""
    system, maker = source.load(wanted.system, wanted.settings or ()), source.maker
    slo = None if wanted.slo is None else parse_slo(wanted.slo)
    wanted = wanted._replace(tp=tp_of(system, None if wanted.tp == 1 else wanted.tp))
    share = _share(wanted, system, llm)
    device, lm_head = _device(system, llm, share, wanted.lm_head, maker)
    device = wrap(device, system) if wrap else device
    if wanted.pp > 1:
        inner = maker(settled(system, False)[0], llm, share._replace(outside=False)) if lm_head else device
        inner = wrap(inner, system) if wrap and inner is not device else inner
        device = pipeline(device, inner, Fraction(layers_of(llm, wanted.layers), share.layers))
    transform = transform_of(
        system, llm, share, speculate=wanted.speculate, branches=wanted.branches, shared=wanted.shared_kv,
        scheduler=wanted.scheduler, chunked=wanted.chunked, seed=wanted.seed, mode=wanted.mode,
    )  # fmt: skip
    if transform and transform.apart and wanted.pp > 1:
        raise of_option(
            "speculate", wanted.speculate, "a separate system drafts for one stage only; leave --pp out, or on=..."
        )

    def tokens_on(devices: int) -> int:
        apart = share._replace(tp=devices)
        return capacity_left(_device(system, llm, apart, wanted.lm_head, maker)[0], transform).tokens

    limits = _limits(wanted, system, llm, device, share, requests, transform, tokens_on)
    notes = _check_all_fit(wanted, limits, requests, transform, traits(system.kind).more)
    clock = (wanted.scheduler, limits, wanted.replicas, wanted.router, wanted.pp)
    plan = Plan(*clock, wanted.exact, wanted.sample, wanted.seed, transform, requests.clients,
                price_error=wanted.price_error)  # fmt: skip
    found = service(device, requests, plan, slo, _named(wanted, system, llm, requests, plan, lm_head, more or {}))
    unknown = [f"energy is without {place}, which is not known" for place in unknown_links(system, wanted.tp)]
    if wanted.rate is not None and isinstance(found.costs, Interpolated):
        found.costs.many = True  # requests that go on coming
    usd = _usd_per_h(wanted, devices_of(system, wanted.tp), transform.apart if transform else None)
    if limits.prefix and windowed(llm, share.layers):
        notes = (*notes, PREFIX_KEEPS_ALL)
    notes = (*(transform.notes if transform else ()), *notes, *routing_notes(system, llm), *unknown)
    return found._replace(rest_w=power_at_rest_w(system, wanted.tp), usd_per_h=usd, notes=notes, system=system)


def _usd_per_h(wanted: Wanted, devices: int, apart: Apart | None) -> float | None:
    """Of all devices; `devices`: of a stage."""
    price, *more = parse_price(wanted.price, 2 if apart else 1, "of both systems")
    if price is None:
        return None
    drafting = more[0] * apart.devices if apart and more[0] is not None else 0.0
    return (price * devices * wanted.pp + drafting) * wanted.replicas


def _share(wanted: Wanted, system: System, llm: LlmSpec) -> Share:
    has = traits(system.kind)
    layers = layers_of(llm, wanted.layers)
    if wanted.pp > 1 and not has.parts:
        raise of_option("pp", wanted.pp, f"{system.name} holds whole models, {has.stages}; leave it out")
    if wanted.pp > layers:
        raise of_option("pp", wanted.pp, f"expected at most {layers}, the number of layers")
    weights = None if wanted.weights is None else format_of(wanted.weights)
    density = None if wanted.density is None else density_of(wanted.density)
    return Share(wanted.tp, -(-layers // wanted.pp), outside=wanted.lm_head, weights=weights, density=density)


def _device(system: System, llm: LlmSpec, share: Share, lm_head: bool | None, maker: Maker) -> tuple[Device, bool]:
    """With embedding, LM head and sampling unless asked otherwise, where the system can have them."""
    if lm_head is not None:
        return maker(system, llm, share), lm_head
    try:
        return maker(settled(system, True)[0], llm, share._replace(outside=True)), True
    except UserError:
        return maker(system, llm, share), has_outside(system, None)


def _limits(
    wanted: Wanted, system: System, llm: LlmSpec, device: Device, share: Share, requests: Requests,
    transform: Transform | None, tokens_on: Callable[[int], int],
) -> Limits:  # fmt: skip
    there, size, positions = capacity_left(device, transform), wanted.block_size, llm.max_position_embeddings
    tokens = there.tokens
    channels = channels_of(wanted, system, device)
    fit = tokens // channels // size * channels
    if fit < 2 * channels:
        raise UserError(no_room(there, system, llm, size, more_devices(system, llm, wanted.tp, tokens_on, 2 * size)))
    if wanted.blocks is not None and wanted.blocks > fit:
        raise of_option("blocks", wanted.blocks, f"{fit:,} blocks of {size} tokens fit beside the weights")
    batch = wanted.batch or BATCH
    if device.most_requests is not None and batch > device.most_requests:
        if wanted.batch is not None:
            most = counted(device.most_requests, "request")
            raise of_option("batch", batch, f"{system.name} runs at most {most} at once")
        batch = device.most_requests
    branches = transform.branches if transform else 1
    if device.most_requests is not None and branches > device.most_requests:
        raise of_option("branches", branches, f"{system.name} runs at most {device.most_requests} at once")
    looks = wanted.scheduler.partition(" ")[0] == ONLY["prefix"] and wanted.prefix_cache is not False
    prefix = requests.prefix if looks else None
    if prefix and channels > 1:
        raise of_option("policy", wanted.policy, "shared blocks are not in one channel; add --no-prefix-cache")
    if wanted.prefix_cache and prefix is None:
        raise of_option("prefix_cache", None, f"{requests.name} has no data on shared prefixes; leave it out")
    if prefix:
        prefix.block(0, 0, size)  # it says whether it has blocks of such a size
    window = _window(wanted, llm, share.layers, prefix is not None)
    seen = window.tokens if window and not window.full else None
    rows = rows_of(wanted, device, tokens // channels, positions, seen) if channels > 1 else None
    return Limits(
        wanted.blocks or fit, size, batch, wanted.batch_tokens, positions, wanted.pp, prefix,
        wanted.long_prompt or 0, wanted.chunked, wanted.swap or 0, branches,
        *((wanted.policy, channels, rows) if channels > 1 else (None, 1, None)),
        AHEAD if wanted.num_preallocate_tokens is None else wanted.num_preallocate_tokens,
        wanted.scheduler_reserve_full_isl, window,
    )  # fmt: skip


def _window(wanted: Wanted, llm: LlmSpec, layers: int, shares: bool) -> Windowed | None:
    """Blocks of layers with a window; None if all layers keep all tokens, as with a prefix cache. Raises UserError."""
    manager, own = wanted.kv_manager, Wanted._field_defaults["kv_manager"]
    if manager not in CACHE_MANAGERS:
        known = f"expected one of {', '.join(CACHE_MANAGERS)}{nearest(manager, CACHE_MANAGERS)}"
        raise of_option("kv_manager", manager, known)
    found = windowed(llm, layers)
    if manager != own and (found is None or not found.full):
        raise of_option("kv_manager", manager, f"{llm.name} has no layers with a window beside others; leave it out")
    if manager != own and shares:
        raise of_option("kv_manager", manager, "shared blocks keep all tokens; add --no-prefix-cache")
    return None if shares else windowed(llm, layers, manager)


def _check_all_fit(
    wanted: Wanted, limits: Limits, requests: Requests, transform: Transform | None, more: str
) -> tuple[str, ...]:
    """Raise UserError for a request that could never run; what is to be said of those that may not end."""
    scheduler, needs, late = scheduler_of(wanted.scheduler, limits), list[int](), list[tuple[int, int]]()
    for i, (prompt, output) in enumerate(zip(requests.prompt, requests.output, strict=True)):
        live = LiveRequest(i, 0, prompt, output)
        if transform:
            transform.dress([live])
        if why := scheduler.never(live):
            instead = instead_of(why, wanted, limits, requests, transform, more)
            raise UserError(f"{requests.name}: request {i} {why} under {wanted.scheduler}; it could never run{instead}")
        needs.append(-(-live.longest // scheduler.blocks.size))
        if tokens := scheduler.late(live):
            late.append((tokens, i))
    blocks, longest = scheduler.blocks, sorted(needs)[-limits.batch :]
    fits = (
        sum(map(blocks.cost, longest)) <= blocks.units if isinstance(blocks, Blocks) else sum(longest) <= blocks.total
    )
    if not late or fits:
        return ()
    most, budget = max(late)[0], limits.budget(wanted.scheduler)
    which = f"request {late[0][1]}" + (f" and {len(late) - 1:,} more" if late[1:] else "")
    return (
        f"{which} may wait for ever: an iteration takes {budget:,} tokens, and who has to yield when more are known of "
        f"it never comes back; --batch-tokens {most:,} would have room for all",
    )


def _named(
    wanted: Wanted,
    system: System,
    llm: LlmSpec,
    requests: Requests,
    plan: Plan,
    lm_head: bool,
    more: Mapping[str, object],
) -> dict[str, Any]:
    """Fields of the result that are known before."""
    layers, limits = layers_of(llm, wanted.layers), plan.limits
    settled_system, outside = settled(system, lm_head)
    asked = _limited(limits, plan.scheduler) | _rated(wanted) | outside | dict(more)
    asked |= {"kv_manager": wanted.kv_manager} if limits.window or wanted.kv_manager != "by-layer" else {}
    digest = spec_digest(
        settled_system, llm, **asked, tp=wanted.tp, layers=layers, scheduler=plan.scheduler, replicas=plan.replicas,
        requests=[requests.arrival_ps, requests.prompt, requests.output, requests.clients], router=plan.router,
        exact=plan.exact, sample=plan.sample, price_error=plan.price_error,
        seed=plan.seed, slo=None if wanted.slo is None else parse_slo(wanted.slo),
        price=parse_price(wanted.price, 2 if plan.transform and plan.transform.apart else 1, "of both systems"),
        transforms=decisive_transforms(
            speculate=wanted.speculate, branches=wanted.branches, shared=wanted.shared_kv, mode=wanted.mode,
            weights=wanted.weights, density=wanted.density,
        ),
    )  # fmt: skip
    return {
        "system": system.name, "model": llm.name, "tp": wanted.tp, "layers": layers, "lm_head": lm_head,
        "model_layers": llm.num_hidden_layers, "spec_digest": digest,
        "workload": {"name": requests.name, "note": requests.note}, "transforms": _transformed(wanted),
    }  # fmt: skip


def _limited(limits: Limits, scheduler: str) -> dict[str, object]:
    """Settings that decide which requests are in an iteration, by name."""
    left = ["branches", "window", *(() if limits.policy else ("policy", "channels"))]
    found = {name: value for name, value in limits._asdict().items() if name not in left}
    rows = limits.rows and limits.rows.there
    return found | {"tokens": limits.budget(scheduler), "prefix": content(limits.prefix), "rows": rows}


def _rated(wanted: Wanted) -> dict[str, object]:
    """The rates of repeated requests and the law of their arrivals; empty if requests arrive once."""
    if wanted.rate is None:
        return {}
    of = wanted.arrivals and parse_arrivals(wanted.arrivals)
    law = of and (of.kind, of.cv)
    rates = [float(rate) for rate in wanted.rate.split(":")]
    return {"rates": rates, "law": law} | ({"share": wanted.share} if wanted.goodput else {})


def _transformed(wanted: Wanted) -> dict[str, Any]:
    """Transforms that are asked for."""
    of = {name: getattr(wanted, name) for name in ("speculate", "branches", "mode", "shared_kv", "weights", "density")}
    return {name: value for name, value in of.items() if value}
