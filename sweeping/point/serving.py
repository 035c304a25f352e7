"""A design point whose workload is served as it arrives, as `pimloom serve` does it."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from math import fsum
from typing import Any, NamedTuple

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec
from pimloom.arch.load import nearest
from pimloom.arch.system import System, load_system, spec_digest
from pimloom.sweeping.definition.sweep import ARRIVING, Scalar
from pimloom.sweeping.point.results import Column, cells_of
from pimloom.sweeping.point.traces import Trace
from pimloom.systems.devices.area import area_mm2
from pimloom.systems.devices.device import Device, Share, device_of
from pimloom.systems.devices.kept import Kept
from pimloom.systems.serving.online.asked import goodput_on, served_on
from pimloom.systems.serving.online.prepared import Source
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.pools.written import SUCH_AS, parse_pools
from pimloom.systems.serving.pricing.sampling import Pricing
from pimloom.systems.serving.results.goodput import parse_rates
from pimloom.systems.serving.results.limits import NAMES as SLO
from pimloom.systems.serving.results.limits import parse_slo
from pimloom.systems.serving.results.outcome import Online, Spread
from pimloom.systems.settings import parse_settings
from pimloom.workload.requests.arrivals import LEAST_RATE, MOST_RATE
from pimloom.workload.requests.table import Requests

TRANSFORMS = ("speculate", "branches", "mode", "weights", "density")
NUMBERS = ("price", "branches", "density")  # of texts, those that may be one number
TOGETHER = ("pools", "link", "transfer", "shares", "overlap", "finetune")
TEXTS = (
    "model",
    "arrivals",
    "trace",
    "lengths",
    "scheduler",
    "router",
    "kv_manager",
    "slo",
    "price",
    "policy",
    *TRANSFORMS,
    *TOGETHER,
)
LIMITS = ("batch", "batch_tokens", "block_size", "blocks", "long_prompt", "swap", "num_preallocate_tokens")
COUNTS = ("requests", *LIMITS, "replicas", "tp", "pp", "layers")
FLAGS = (
    "goodput",
    "prefix_cache",
    "chunked",
    "cut",
    "lm_head",
    "exact",
    "shared_kv",
    "mixed",
    "scheduler_reserve_full_isl",
)
FROM_0 = ("sample", "seed", "num_preallocate_tokens")
KEYS = (*TEXTS, "rate", "share", *COUNTS, "sample", "price_error", "seed", *FLAGS)
MOST = 2**20  # of a count
MOST_SEED = 2**32 - 1
MOST_KEPT = 8  # devices whose steps a process remembers
PERCENTILES = ("p50", "p90", "p99")
SPREADS = {
    "time_to_first_token": "time to the first token, waiting included",
    "time_per_output_token": "time per output token behind the first, of a request",
    "token_gap": "time between two tokens of a request",
    "latency": "time from arrival to the last token",
    "wait": "time until a request is first in an iteration",
}
SHARES = {"slo": "all limits of `slo`", "slo_ttft": "ttft", "slo_tpot": "tpot", "slo_latency": "latency"}
FILE = re.compile(r"[^=,]*(\.ya?ml|\.json|/)[^=,]*")  # a point holds no text of what a draft names
GOODPUT = {
    "goodput_rate_per_s": "highest rate, of those tried, at which `share` of requests hold `slo` in steady state",
    "goodput_rate_per_s_per_device": "the highest rate that holds, per device of all replicas",
    "requests_per_j": "requests per energy at the highest rate that holds",
    "requests_per_usd": "requests per dollar at the highest rate that holds",
}
ONLY_WITH = {
    "transfer_s": "pools", "finetuned_tokens_per_s": "finetune", "finetuned_share_of_peak": "finetune",
    **dict.fromkeys(GOODPUT, "goodput"), "usd_per_h": "price", "tokens_per_usd": "price",
}  # fmt: skip
BY_NAME = {"speculate": "a draft and its machine", "pools": "systems"}
OPTION = re.compile(r"--([a-z][a-z-]*)")


def is_served(keys: Collection[str]) -> bool:
    """Whether a workload with these keys is served as it arrives."""
    return any(key in keys for key in ARRIVING)


def check_key(key: str) -> None:
    """Raise UserError unless a workload that is served takes this key."""
    if key not in KEYS:
        known = f"expected one of {', '.join(KEYS)}{nearest(key, KEYS)}"
        raise UserError(f"workload.{key}: unknown key of a workload with arrivals or a trace, {known}")


def check_value(key: str, value: Scalar) -> None:
    """Raise UserError unless the value is one that the key can have."""
    least, most = (0 if key in FROM_0 else 1), (MOST_SEED if key == "seed" else MOST)
    if key in COUNTS or key in ("sample", "seed"):
        if type(value) is not int or not least <= value <= most:
            raise UserError(f"workload.{key}: expected an int from {least} to {most}, got {value}")
    elif key in FLAGS:
        if not isinstance(value, bool):
            raise UserError(f"workload.{key}: expected true or false, got {value}")
    elif key == "share":
        if isinstance(value, bool | str) or not 0 < value <= 1:
            raise UserError(f"workload.share: expected a number above 0 and at most 1, got {value}")
    elif key == "rate" and isinstance(value, str):
        parse_rates(value)
    elif key == "rate":
        if isinstance(value, bool | str) or not LEAST_RATE <= value <= MOST_RATE:
            said = f"expected a number from {LEAST_RATE:g} to {MOST_RATE:g}, in requests per s"
            raise UserError(f"workload.{key}: {said}, got {value}")
    elif key == "price_error":
        if isinstance(value, bool | str) or not 0 < value <= 1:
            raise UserError(f"workload.{key}: expected a share above 0 and at most 1, got {value}")
    elif not isinstance(value, str):
        if key not in NUMBERS or isinstance(value, bool):
            raise UserError(f"workload.{key}: expected text{' or a number' * (key in NUMBERS)}, got {value}")
    elif key in BY_NAME and (file := FILE.search(value)):
        raise UserError(f"workload.{key}: sweeps take {BY_NAME[key]} by name, got {file[0]}")


def check_together(keys: Iterable[str]) -> None:
    """Raise UserError where a key is missing, or two cannot stand together."""
    given = set(keys)
    if "model" not in given:
        raise UserError("workload: missing key 'model' (a preset or a config.json)")
    if "trace" not in given and "requests" not in given:
        raise UserError("workload: missing key 'requests' (how many come with workload.arrivals)")
    if "goodput" in given and not {"rate", "slo"} <= given:
        raise UserError("workload.goodput: expected limits and rates, such as slo: ttft=1s,tpot=50ms and rate: 0.5:16")
    if "trace" in given and "lengths" in given:
        raise UserError("workload.lengths: the trace has lengths of its own; leave one of the two out")


def check_judged(names: Collection[str], slo: Collection[Scalar], keys: Collection[str]) -> None:
    """Raise UserError for a column that designs are judged by and that no row would have, with these limits and keys of
    the workload."""
    for column, key in ONLY_WITH.items():
        if column in names and key not in keys:
            raise UserError(f"{column}: no row has it without workload.{key}; give it")
    limits = set[str]()
    for text in slo:
        with suppress(UserError):  # its rows tell
            limits |= {name for name, most in parse_slo(str(text))._asdict().items() if most is not None}
    needs = {"goodput_per_s": set[str](), "slo_share": set[str]()} | {f"slo_{name}_share": {name} for name in SLO}
    for column, of in needs.items():
        if column in names and (not limits or of - limits):
            such_as = f"{min(of, default='ttft')}=1s"
            raise UserError(f"{column}: no row has it without limits; give workload.slo, such as {such_as}")


def columns(figures: bool) -> list[Column]:
    """The results of every point. figures: whether there is an area."""
    found = list[Column]()
    for name, meaning in SPREADS.items():
        found.append(Column(f"{name}_s", False, f"{meaning}: mean"))
        found += [Column(f"{name}_{each}_s", False, f"{meaning}: {each} of requests") for each in PERCENTILES]
    found += [
        Column("tokens_per_s", False, "generated tokens of all requests per second, idle time included"),
        Column("requests_per_s", False, "requests that end per second, idle time included"),
        Column(
            "goodput_per_s",
            False,
            "of these, those that hold all limits of `slo`; 0 if the backlog grows, and "
            "with `rate` unless it is steady",
        ),
        *(Column(f"{name}_share", False, f"share of requests that hold {what}") for name, what in SHARES.items()),
        Column("backlog_growth", False, "trend of the number of requests in the system / their rate of arrival"),
        Column("backlog_steady", True, "1: the backlog is steady; 0: it grows, or the run is too short to tell"),
        *(Column(name, False, meaning) for name, meaning in GOODPUT.items()),
        Column("energy_j", False, "energy of all iterations on all devices"),
        Column("energy_per_token_j", False, "the same per generated token"),
        Column("energy_per_request_j", False, "the same per request"),
        Column("usd_per_h", False, "price of all devices for an hour"),
        Column("tokens_per_usd", False, "generated tokens for a dollar"),
        Column("busy_share", False, "share of the time in which iterations run"),
        Column("batch_mean", False, "requests of an iteration"),
        Column("preemptions", True, "times that requests had to yield"),
        Column("swaps", True, "of these, to the host's memory"),
        Column("accepted_share", False, "share of drafts that were right, of those that were checked"),
        Column("tokens_per_step", False, "tokens of a request in a step that checks drafts"),
        Column("prefix_hit_share", False, "share of prompt tokens found in the prefix cache"),
        Column("blocks_used_mean", False, "blocks of KV cache that are held"),
        Column("blocks_used_most", True, "most of them"),
        Column("blocks", True, "blocks of KV cache there"),
        Column("transfer_s", False, "time from the first token until a cache is in the pool of decode: mean"),
        Column("finetuned_tokens_per_s", False, "tokens of fine-tuning per second, forward and back"),
        Column("finetuned_share_of_peak", False, "the same, of what they would be alone"),
        Column("time_s", False, "from the first arrival to the last token"),
        Column("iterations", True, "iterations"),
        Column("simulated_iterations", True, "different ones that were simulated"),
        Column("pricing_error", False, "error of the time of all iterations, from a sample; empty without one"),
        Column("pricing_energy_error", False, "error of their energy, from the same sample"),
        Column("pricing_error_bound", False, "bound of TTFT, TPOT, latency, time and energy, as a share"),
        Column("pricing_holds", True, "1 if errors of prices are within `price_error`, 0 if they may exceed it"),
    ]
    area = Column("area_mm2", False, "area of the logic of all devices, see docs/sweep.md")
    return [*found, area] if figures else found


class Own(NamedTuple):
    """The system of a point. load: with what is set besides; is_set: whether the point sets anything in it."""

    load: Callable[[dict[str, str]], System]
    is_set: bool


def served_point(
    own: Own, llm: LlmSpec, given: Mapping[str, Scalar], traces: Mapping[str, Trace], seed: int
) -> tuple[dict[str, Any], str]:
    """Results by the name of their column, and the digest of what decides them. Raises UserError."""
    options, system = {"seed": seed, **given}, own.load({})
    options |= {key: str(options[key]) for key in NUMBERS if key in options}
    rate, trace, pools = (options.pop(key, None) for key in ("rate", "trace", "pools"))
    requests = None if trace is None else traces[str(trace)].requests()
    text = rate if rate is None or isinstance(rate, str) else repr(float(rate))
    wanted = Wanted(**{"system": pools or system.name, **options, "trace": None, "rate": text})  # type: ignore[arg-type]

    def load(name: str, settings: Sequence[str]) -> System:
        is_set = parse_settings(settings)
        return own.load(is_set) if name == system.name else load_system(name, is_set)

    try:
        _check_pools(pools, system, own)
        if wanted.goodput:
            return _goodput(wanted, Source(load, _device), llm, requests)
        if isinstance(rate, str):
            raise UserError(f"--rate {rate}: belongs to workload.goodput; give one rate")
        found, on = served_on(Source(load, _device), llm, wanted, requests, None if rate is None else float(rate))
    except UserError as error:
        said = str(error).replace("--set ", "")  # a place of the system is an axis here
        raise UserError(OPTION.sub(lambda option: f"workload.{option[1].replace('-', '_')}", said)) from None
    return _values(found, rate is not None) | {"area_mm2": _area_mm2(on)}, found.spec_digest


def _area_mm2(on: Sequence[tuple[System, int]]) -> float | None:
    """Area of all devices [mm²]; None if the area of one system is not known."""
    areas = [(area_mm2(each), devices) for each, devices in on]
    return None if any(one is None for one, _ in areas) else sum((one or 0.0) * devices for one, devices in areas)


def _goodput(wanted: Wanted, source: Source, llm: LlmSpec, trace: Requests | None) -> tuple[dict[str, Any], str]:
    """The highest rate that holds. Raises UserError, also where not even the lowest does."""
    found, on = goodput_on(source, llm, wanted, trace)
    values = {name: getattr(found, name.replace("goodput_rate", "goodput")) for name in GOODPUT}
    pricing = {} if found.pricing is None else _pricing(found.pricing)
    values |= cells_of(found.energy_by_cell, rest_known=found.rest_w is not None)
    return values | pricing | {"lm_head": int(found.lm_head), "area_mm2": _area_mm2(on)}, found.spec_digest


def _check_pools(pools: Scalar | None, system: System, own: Own) -> None:
    """Raise UserError for what is no pools, and for those on none of which a point could set what it sets."""
    if pools is None:
        return
    if "=" not in str(pools):
        raise UserError(f"--pools {pools}: expected one for prompts and one for decode, such as {SUCH_AS}")
    named = parse_pools(str(pools), "1Gb/s")
    if named and own.is_set and system.name not in (named.prefill.system, named.decode.system):
        raise UserError(
            f"--pools {pools}: neither of them is {system.name}, of which the sweep sets something; name it in one"
        )


def _device(system: System, llm: LlmSpec, share: Share) -> Device:
    """The points of a process share what is simulated of a device that forgets what came before."""
    key = (spec_digest(system, llm), share)
    if (found := _KEPT.get(key)) is None:
        found = device_of(system, llm, share)
        if not found.in_order:
            found = _KEPT[key] = Kept(found)
            if len(_KEPT) > MOST_KEPT:
                del _KEPT[next(iter(_KEPT))]
    return found


_KEPT: dict[tuple[str, Share], Device] = {}


def _values(found: Online, rated: bool) -> dict[str, Any]:
    """rated: whether requests came at a rate that was given, until the run was steady."""
    values = dict[str, Any]()
    for name in SPREADS:
        spread: Spread | None = getattr(found, f"{name}_s")
        values[f"{name}_s"] = spread and spread.mean
        values |= {f"{name}_{each}_s": spread and getattr(spread, each) for each in PERCENTILES}
    count, joules, held = len(found.by_request["latency_s"]), found.energy_j, found.slo
    trend = found.backlog
    is_steady = trend is not None and trend.state == "steady"
    if trend is not None:
        values |= {"backlog_growth": trend.growth, "backlog_steady": int(is_steady)}
    if held is not None:
        sustained = is_steady if rated else trend is None or not trend.grows
        values |= {"slo_share": held.all, "goodput_per_s": sustained * held.all * count / found.time_s}
        values |= {f"slo_{name}_share": getattr(held, name) for name in ("ttft", "tpot", "latency")}
    for name in (
        "tokens_per_s", "energy_j", "energy_per_token_j", "usd_per_h", "tokens_per_usd",
        "busy_share", "batch_mean", "preemptions", "swaps",
        "accepted_share", "tokens_per_step", "prefix_hit_share", "blocks_used_mean", "blocks_used_most", "blocks",
        "time_s",
    ):  # fmt: skip
        values[name] = getattr(found, name)
    if found.beside is not None:
        beside = found.beside
        values |= {"finetuned_tokens_per_s": beside["finetuned_tokens_per_s"]}
        values |= {"finetuned_share_of_peak": beside["share_of_peak"]}
    if moved := [each for each in found.by_request.get("transfer_s", ()) if each is not None]:
        values["transfer_s"] = fsum(moved) / len(moved)
    return values | {
        "requests_per_s": count / found.time_s,
        "energy_per_request_j": None if joules is None else joules / count,
        "iterations": found.iteration_count,
        "lm_head": int(found.lm_head),
        **cells_of(found.energy_by_cell, rest_known=found.rest_w is not None),
        **_pricing(found.pricing),
    }


def _pricing(found: Pricing) -> dict[str, Any]:
    """Errors of interpolated prices, and whether they hold."""
    return {
        "simulated_iterations": found.simulated,
        "pricing_error": found.error,
        "pricing_energy_error": found.energy_error,
        "pricing_holds": None if found.holds is None else int(found.holds),
        "pricing_error_bound": found.error_bound,
    }
