"""The stored cases of serving: a folder's configuration and requests, run by our schedulers on a closed-form device.

The times of an iteration have no meaning as hardware: they exist so that two programs can be compared to the tick.
"""

import csv
import json
from collections.abc import Callable, Sequence
from operator import add, mul
from pathlib import Path
from typing import Any

from pimloom.systems.serving.clock.cluster import least_waiting, round_robin, serve
from pimloom.systems.serving.clock.replica import Replica
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.faster_transformer import FasterTransformer
from pimloom.systems.serving.schedulers.lightllm import LightLlm
from pimloom.systems.serving.schedulers.live import Iteration, LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.orca import Orca
from pimloom.systems.serving.schedulers.prefix_pool import Identity, PrefixPool
from pimloom.systems.serving.schedulers.sarathi import VidurSarathi
from pimloom.systems.serving.schedulers.vidur_vllm import VidurVllm
from pimloom.systems.serving.schedulers.vllm_v0 import VllmV0
from pimloom.systems.serving.schedulers.vllm_v0_chunked import VllmV0Chunked
from pimloom.systems.serving.schedulers.vllm_v1 import VllmV1

Row = dict[str, str]


def lin(new: Sequence[int], cached: Sequence[int]) -> int:
    """4000 + 20 T + (sum of n (p + n)) // 64."""
    return 4000 + 20 * sum(new) + sum(map(mul, new, map(add, new, cached))) // 64


def roof(new: Sequence[int], cached: Sequence[int]) -> int:
    """max(12000, 20 T) + sum of contexts / 32 + sum of pairs / 4096, both rounded up."""
    pairs = sum(n * p + n * (n + 1) // 2 for n, p in zip(new, cached, strict=True))
    return max(12000, 20 * sum(new)) + -(-(sum(new) + sum(cached)) // 32) + -(-pairs // 4096)


LATENCIES: dict[str, Callable[[Sequence[int], Sequence[int]], int]] = {
    "lin": lin,
    "roof": roof,
    "const": lambda new, cached: 10000,
    "tok": lambda new, cached: 5000 + 20 * sum(new),
}


def price_of(config: dict[str, Any]) -> Callable[[Iteration], int]:
    latency = LATENCIES[config["latency"]]
    return lambda made: latency(made.new, made.cached)


def rows(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def config_of(case: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((case / "config.json").read_text())
    return found


def requests_of(case: Path) -> list[LiveRequest]:
    table = rows(case / "requests.csv")
    return [LiveRequest(*(int(row[name]) for name in ("request", "arrival", "prompt", "output"))) for row in table]


def spaced(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def pieces(made: Iteration) -> Row:
    return {
        "start": str(made.start),
        "ticks": str(made.ticks),
        "requests": spaced([r.number for r in made.requests]),
        "new_tokens": spaced(made.new),
        "cached_tokens": spaced(made.cached),
    }


def vidur_scheduler(config: dict[str, Any]) -> Scheduler:
    blocks = Blocks(config["num_blocks"], config["block_size"])
    cap, stages = config["batch_size_cap"], config.get("pp", 1)
    watermark = int(config.get("watermark_blocks_fraction", 0.01) * config["num_blocks"])
    reserved = config.get("max_tokens", 4096) // config["block_size"]
    match config["scheduler"]:
        case "vllm":
            return VidurVllm(blocks, watermark, cap, config["max_tokens_in_batch"], stages)
        case "sarathi":
            return VidurSarathi(blocks, watermark, cap, config["chunk_size"], stages)
        case "orca":
            return Orca(blocks, reserved, cap)
        case "faster_transformer":
            return FasterTransformer(blocks, reserved, cap, leak=True)
        case "lightllm":
            return LightLlm(blocks, cap, config["max_tokens_in_batch"], config["max_waiting_iters"])
    raise AssertionError(config["scheduler"])


ALL = {name: name for name in ("arrival", "first_scheduled", "first_token", "completion")}
VIDUR_COLUMNS = {"request": "number", **ALL, "restarts": "restarts"}


def run_vidur(case: Path) -> tuple[list[Row], list[Row]]:
    """Rows of expected.csv and of iterations.csv."""
    config, requests = config_of(case), requests_of(case)
    made: list[tuple[int, Iteration]] = []

    def replica(i: int) -> Replica:
        seen = lambda iteration: made.append((i, iteration))  # noqa: E731
        return Replica(vidur_scheduler(config), price_of(config), config.get("pp", 1), seen)

    replicas = [replica(i) for i in range(config.get("replicas", 1))]
    router = (least_waiting if config.get("global") == "lor" else round_robin)(replicas)
    serve(requests, replicas, router)
    return told(requests, VIDUR_COLUMNS), [{"replica": str(i)} | pieces(each) for i, each in made]


def told(requests: Sequence[LiveRequest], columns: dict[str, str]) -> list[Row]:
    """Rows of expected.csv: its columns, and of what each is."""
    return [{name: str(getattr(r, field)) for name, field in columns.items()} for r in requests]


def vllm_v0_scheduler(config: dict[str, Any]) -> Scheduler:
    blocks = Blocks(config["num_blocks"], config["block_size"])
    limits = (config["num_blocks"] // 100, config["max_num_seqs"], config["max_num_batched_tokens"])
    host = Blocks(config["num_cpu_blocks"], config["block_size"]) if config["preemption"] == "swap" else None
    assert not (config["chunked"] and host)
    return VllmV0Chunked(blocks, *limits) if config["chunked"] else VllmV0(blocks, *limits, host)


V0_COLUMNS = {"request": "number", **ALL, "preemptions": "restarts", "of_which_swaps": "swaps"}


def run_vllm_v0(case: Path) -> tuple[list[Row], list[Row]]:
    config, requests, made = config_of(case), requests_of(case), list[Iteration]()
    replicas = [Replica(vllm_v0_scheduler(config), price_of(config), 1, made.append)]
    serve(requests, replicas, round_robin(replicas))
    moved = [{"blocks_in": str(each.blocks_in), "blocks_out": str(each.blocks_out)} for each in made]
    return told(requests, V0_COLUMNS), [pieces(each) | more for each, more in zip(made, moved, strict=True)]


def vllm_v1_scheduler(config: dict[str, Any], case: Path) -> Scheduler:
    usable, size = config["num_blocks"] - 1, config["block_size"]
    pool = PrefixPool(usable, size, identity_of(case, size)) if config["prefix_caching"] else Blocks(usable, size)
    limits = (config["max_num_seqs"], config["max_num_batched_tokens"], config["max_model_len"])
    return VllmV1(pool, *limits, config.get("long_prefill_token_threshold", 0))


V1_COLUMNS = {"request": "number", **ALL, "preemptions": "restarts", "prefix_hit_tokens": "hit"}


def run_vllm_v1(case: Path) -> tuple[list[Row], list[Row]]:
    config, requests, made = config_of(case), requests_of(case), list[Iteration]()
    replicas = [Replica(vllm_v1_scheduler(config, case), price_of(config), 1, made.append)]
    serve(requests, replicas, round_robin(replicas))
    return told(requests, V1_COLUMNS), [pieces(each) for each in made]


def identity_of(case: Path, size: int) -> Identity:
    """Full blocks of the tokens that a group shares are equal, all others are a request's own."""
    groups = {int(row["request"]): (row["group"], int(row["shared"] or 0)) for row in rows(case / "requests.csv")}

    def identity(request: LiveRequest, k: int) -> tuple[object, int]:
        group, shared = groups[request.number]
        return (f"group {group}" if (k + 1) * size <= shared else request.number), k

    return identity
