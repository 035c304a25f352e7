"""The public function `pimloom.serve`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pimloom.edge import ask, public


@public
def serve(
    system: str | Path,
    *,
    model: str | Path,
    trace: str | Path | None = None,
    arrivals: str | None = None,
    lengths: str | None = None,
    requests: int | None = None,
    scheduler: str = "vllm-v1",
    batch_tokens: int | None = None,
    batch: int | None = None,
    block_size: int = 16,
    blocks: int | None = None,
    prefix_cache: bool | None = None,
    long_prompt: int | None = None,
    kv_manager: str = "by-layer",
    num_preallocate_tokens: int | None = None,
    scheduler_reserve_full_isl: bool = False,
    chunked: bool = False,
    swap: int | None = None,
    policy: str | None = None,
    cut: bool = False,
    replicas: int = 1,
    router: str = "round-robin",
    link: str | None = None,
    transfer: str | None = None,
    mixed: bool = False,
    shares: str | None = None,
    overlap: str | None = None,
    finetune: str | None = None,
    tp: int = 1,
    pp: int = 1,
    layers: int | None = None,
    lm_head: bool | None = None,
    slo: str | None = None,
    goodput: bool = False,
    rate: str | None = None,
    share: float = 0.9,
    price: str | float | None = None,
    speculate: str | None = None,
    branches: str | int | None = None,
    mode: str | None = None,
    shared_kv: bool = False,
    weights: str | None = None,
    density: str | float | None = None,
    exact: bool = False,
    sample: int = 5,
    price_error: float = 0.02,
    set: Mapping[str, object] | None = None,
    timeline: str | Path | None = None,
    html: str | Path | None = None,
    seed: int = 0,
) -> Any:  # an `Online`, with `goodput` a `Goodput`
    """Serve the requests of a `trace`, or drawn ones, on a system as they arrive, as `pimloom serve` does.

    system: a name or a file, or pools for prompts and decode, "prefill=gpu_a100*2:pp2,decode=neupims*4", and a `link`,
    "400Gb/s" or "nvlink3"; transfer: "layers", if caches leave while prompts run; mixed: whether machines of splitwise
    help out in the other pool. arrivals: "poisson:2/s", "gamma:2/s,cv=3", "uniform:2/s" or "burst", of so many
    `requests`, whose `lengths` are those of a data set ("sharegpt", "alpaca") or "PROMPT:OUTPUT". scheduler: whose
    rules decide who is in an iteration; batch_tokens: its most tokens; num_preallocate_tokens=0 and
    scheduler_reserve_full_isl: of "vllm-v1", as in vLLM 0.19; slo: "ttft=1s,tpot=50ms". Iterations are simulated once
    where they are equal, and most of them are read between few that are simulated (`pricing` tells the
    error), none with `exact`. `requests` and `iterations` of the result are tables of pandas. goodput: a `Goodput`
    instead, the highest `rate` in "LOW:HIGH" at which a `share` of requests holds `slo`. price: 1.29, or "1.29:2.69",
    of a device for an hour [$]. speculate: drafts that are checked, "draft=gpt2,gamma=4,alpha=0.7" or "medusa";
    branches: of each request, which go on in a `mode`, "multiverse", or each to its end, and read their prompts once
    with `shared_kv`; weights: "int4"; density: of attention, 0.19 or "0.19,selection=0.11". html: a folder for a page.
    Raises `pimloom.UserError`.

    >>> found = serve("gpu_a100", model="gpt2", arrivals="burst", lengths="64:4", requests=8)
    >>> found.iteration_count, len(found.requests), found.requests["output_tokens"].sum().item()
    (4, 8, 32)
    """
    from pimloom.commands.serve import run_serve
    from pimloom.commands.serve import serve as command
    from pimloom.systems.serving.options.wanted import Wanted

    return ask(command, locals(), lambda **read: run_serve(Wanted(**read, quiet=True)))
