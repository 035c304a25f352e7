"""The options of `pimloom serve`."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pimloom.systems.serving.results.goodput import SHARE


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
    kv_manager: str = "by-layer"
    prefix_cache: bool | None = None
    long_prompt: int | None = None
    num_preallocate_tokens: int | None = None
    scheduler_reserve_full_isl: bool = False
    chunked: bool = False
    swap: int | None = None
    policy: str | None = None
    cut: bool = False
    replicas: int = 1
    router: str = "round-robin"
    link: str | None = None
    transfer: str | None = None
    mixed: bool = False
    shares: str | None = None
    overlap: str | None = None
    finetune: str | None = None
    tp: int = 1
    pp: int = 1
    layers: int | None = None
    lm_head: bool | None = None
    slo: str | None = None
    goodput: bool = False
    rate: str | None = None
    share: float = SHARE
    price: str | None = None
    speculate: str | None = None
    branches: str | None = None
    mode: str | None = None
    shared_kv: bool = False
    weights: str | None = None
    density: str | None = None
    exact: bool = False
    sample: int = 5
    price_error: float = 0.02
    settings: Sequence[str] | None = None
    json: str | None = None
    timeline: Path | None = None
    html: Path | None = None
    seed: int = 0
    quiet: bool = False
