"""The stored cases of pools: DistServe's replicas for prompts and decode, and Splitwise's machines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pimloom.systems.serving.clock.distserve import Worker, colocated, disaggregated, ring
from pimloom.systems.serving.clock.events import Events
from pimloom.systems.serving.clock.splitwise import (
    Choice,
    Limits,
    Machine,
    Run,
    fewest_requests,
    fewest_tokens,
    in_turn,
    run,
)
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest
from tests.serving_cases import ALL, LATENCIES, Row, config_of, pieces, price_of, requests_of, rows, told

CACHE_BYTES = 2_621_440  # of a token: 2 x hidden x layers x 2 B of its Llama-2-70B


def run_distserve(case: Path) -> tuple[list[Row], list[Row]]:
    requests = requests_of(case)
    made = distserve(config_of(case), requests)
    found = [{"worker": str(i), "kind": kind} | pieces(each) for i, kind, each in made]
    return told(requests, {"request": "number", **ALL}), [
        {name: row[name] for name in ("worker", "start", "kind", "requests", "new_tokens", "cached_tokens")}
        for row in found
    ]


def distserve(config: dict[str, Any], requests: list[LiveRequest]) -> list[tuple[int, str, Iteration]]:
    """(worker, kind, iteration) in the order in which they start."""
    events, made, number = Events(), list[tuple[int, str, Iteration]](), dict[Worker, int]()

    def started(worker: Worker, kind: str, each: Iteration) -> None:
        made.append((number[worker], kind, each))

    def rings(replicas: str, stages: str) -> list[list[Worker]]:
        found = [
            ring(events, price_of(config), config[stages], config["prefill_max_tokens"], started)
            for _ in range(config[replicas])
        ]
        number.update({worker: len(number) + i for i, worker in enumerate(w for workers in found for w in workers)})
        return found

    if config["cluster"] == "disagg":
        prefill = rings("prefill_instances", "pp_prefill")
        disaggregated(requests, events, prefill, rings("decode_instances", "pp_decode"))
    else:
        colocated(requests, events, rings("instances", "pp"))
    return made


def run_splitwise(case: Path) -> tuple[list[Row], list[Row]]:
    """The order of the requests of a line has no meaning: they are sorted."""
    config, requests, events, runs = config_of(case), requests_of(case), Events(), list[Run]()
    orca = config["instance"] == "ORCA"
    tokens = () if orca else (config["max_batch_tokens"], config["max_preemptions"])
    limits = Limits(config["max_batch_size"], *tokens)
    split = config["mode"] == "splitwise"
    counts = ("prompt_instances", "token_instances") if split else ("instances",)
    pools = [
        [Machine(events, LATENCIES[config["latency"]], limits, runs.append) for _ in range(config[n])] for n in counts
    ]
    choose: dict[str, Callable[[], Choice]] = {
        "round_robin": in_turn, "kv_round_robin": in_turn, "jsq": lambda: fewest_requests,
        "kv_jsq": lambda: fewest_requests, "token_jsq": lambda: fewest_tokens,
        "kv_token_jsq": lambda: fewest_tokens,
    }  # fmt: skip
    chosen = [(pool, choose[config["scheduler"]]()) for pool in pools]
    flow = lambda r: -(-r.prompt * CACHE_BYTES // config["bytes_per_tick"])  # noqa: E731
    tasks = run(requests, chosen[0], chosen[1] if split else None, flow, events)
    number = {machine: i for i, machine in enumerate(machine for pool in pools for machine in pool)}
    found = [
        {"request": str(t.request.number)}
        | {name: str(getattr(t.request, name)) for name in ("arrival", "first_token", "completion")}
        | {"prompt_instance": str(number[t.prompt_on]), "token_instance": str(number[t.tokens_on])}
        | {"token_preemption_count": str(t.tokens.passed)}
        for t in sorted(tasks, key=lambda t: t.request.number)
    ]
    return found, [block(number[each.machine], each) for each in runs]


def block(machine: int, each: Run) -> Row:
    table = [(t.request.number, t.new, "P" if t.prompt else "T") for t in each.batch]
    return by_request(
        {
            "instance": str(machine),
            "start": str(each.start),
            "ticks_each": str(each.each),
            "iterations": str(each.iterations),
            **{
                name: " ".join(str(row[i]) for row in table)
                for i, name in enumerate(("requests", "new_tokens", "kinds"))
            },
        }
    )


def by_request(row: Row) -> Row:
    names = ("requests", "new_tokens", "kinds")
    table = sorted(zip(*(row[name].split() for name in names), strict=True), key=lambda one: int(one[0]))
    return row | {name: " ".join(column) for name, column in zip(names, zip(*table, strict=True), strict=True)}


def run_goodput(case: Path, every: int) -> list[dict[str, float | str]]:
    """The shares of requests that hold the limits, at each such rate: of times to the first token, of times per
    token."""
    config, table, found = config_of(case), rows(case / "requests.csv"), list[dict[str, float | str]]()
    for name, system in config["systems"].items():
        for rate in config["rates"][::every]:
            requests = [
                LiveRequest(
                    int(row["request"]), int(row["arrival_at_rate_1"]) // rate, int(row["prompt"]), int(row["output"])
                )
                for row in table
            ]
            distserve({"latency": config["latency"], **system}, requests)
            first = np.array([r.first_token - r.arrival for r in requests])
            each = np.array([(r.completion - r.first_token) / r.output for r in requests])
            good = first <= config["ttft"], each <= config["tpot"]
            found.append({
                "system": name, "rate_per_s": rate,
                "ttft_attained": good[0].mean(), "tpot_attained": good[1].mean(),
                "both_attained": (good[0] & good[1]).mean(),
                "ttft_p90": np.quantile(first, 0.9), "tpot_p90": np.quantile(each, 0.9),
            })  # fmt: skip
    return found
