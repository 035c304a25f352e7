"""Schedulers by name, with the limits that a user gives."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError
from pimloom.systems.serving.pools.distserve import DistServeDecodes, DistServePrompts
from pimloom.systems.serving.pools.sides import VllmV1Decodes, VllmV1Prompts
from pimloom.systems.serving.pools.splitwise import Splitwise
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.channel_blocks import ChannelBlocks
from pimloom.systems.serving.schedulers.channel_rows import ChannelRows, Rows
from pimloom.systems.serving.schedulers.faster_transformer import FasterTransformer
from pimloom.systems.serving.schedulers.lightllm import LightLlm
from pimloom.systems.serving.schedulers.live import LiveRequest, Scheduler
from pimloom.systems.serving.schedulers.orca import Orca
from pimloom.systems.serving.schedulers.prefix_pool import PrefixPool
from pimloom.systems.serving.schedulers.sarathi import Sarathi, VidurSarathi
from pimloom.systems.serving.schedulers.static import Static
from pimloom.systems.serving.schedulers.vidur_vllm import VidurVllm
from pimloom.systems.serving.schedulers.vllm_v0 import VllmV0
from pimloom.systems.serving.schedulers.vllm_v0_chunked import VllmV0Chunked
from pimloom.systems.serving.schedulers.vllm_v1 import AHEAD, VllmV1
from pimloom.systems.serving.sharing.semi_pd import SharedDecodes, SharedPrompts
from pimloom.workload.need import Windowed
from pimloom.workload.requests.table import Prefix, named_tokens

WATERMARK = 100  # one block in so many stays free when a request comes in [secondary: vLLM, Vidur]
PATIENCE = 10  # decode iterations between two attempts of LightLLM to take prompts in [secondary: Vidur]
CHUNK = {"sarathi": 512, "vidur-sarathi": 512, "splitwise": 2048}  # [recalled] Sarathi-Serve, Splitwise
TOKENS = 2048  # vLLM's max_num_batched_tokens with chunks [recalled]


class Limits(NamedTuple):
    """blocks: of KV cache, of `block_size` tokens; batch: most requests that run; tokens: of an iteration, None: as the
    scheduler has it by itself; positions: of the model; stages: of a pipeline; prefix: what prompts share, if the
    scheduler is to look for it; threshold: tokens of a prompt in an iteration, 0: no limit; chunked: vLLM v0 with
    chunked prefill; host: blocks to swap out to, 0: those who yield recompute; branches: of a request, each of which
    may be as long as the model; policy: in which of so many channels a request lies, None: blocks lie anywhere; rows:
    of a channel, None: they do not count; ahead, whole: as `VllmV1.admit_by` has them; window: of
    layers that do not keep all tokens."""

    blocks: int
    block_size: int
    batch: int
    tokens: int | None
    positions: int
    stages: int = 1
    prefix: Prefix | None = None
    threshold: int = 0
    chunked: bool = False
    host: int = 0
    branches: int = 1
    policy: str | None = None
    channels: int = 1
    rows: Rows | None = None
    ahead: int = AHEAD
    whole: bool = False
    window: Windowed | None = None

    @property
    def each(self) -> int:
        """Blocks that a request finds in one place."""
        return self.blocks // self.channels

    @property
    def watermark(self) -> int:
        """Blocks there that stay free when one comes in."""
        return self.each // WATERMARK

    @property
    def longest(self) -> int:
        """Tokens of a request."""
        return self.positions * self.branches

    def budget(self, name: str) -> int:
        """Tokens of an iteration: whole prompts must fit where they are not cut."""
        if self.tokens is not None:
            return self.tokens
        name = name.partition(" ")[0]
        cut = name in ("vllm-v1", *CHUNK) or self.chunked
        return CHUNK.get(name, TOKENS) if cut else max(self.positions, TOKENS)


def _pool(limits: Limits, *, unused: int = 0, spare: int = 0) -> Blocks:
    if limits.policy is None:
        return Blocks(limits.blocks - unused, limits.block_size, limits.window)
    parts = [limits.each - unused, *[limits.each] * (limits.channels - 1)]
    if limits.rows:
        return ChannelRows(parts, limits.block_size, limits.policy, spare, limits.rows, limits.window)
    return ChannelBlocks(parts, limits.block_size, limits.policy, spare, limits.window)


def _worst(limits: Limits) -> tuple[Blocks, int, int]:
    return _pool(limits), -(-limits.longest // limits.block_size), limits.batch


def _vllm_v0(limits: Limits, budget: int) -> Scheduler:
    pool, watermark = _pool(limits, spare=limits.watermark), limits.watermark
    if limits.chunked and limits.host:
        raise UserError("--chunked: with --swap vLLM v0's order is not defined; leave one of the two out")
    if limits.chunked and limits.batch > budget:
        raise UserError(
            f"--batch {limits.batch}: expected at most the {budget} of --batch-tokens, as each request that decodes "
            "takes a token of it"
        )
    if limits.chunked:
        return VllmV0Chunked(pool, watermark, limits.batch, budget)
    host = Blocks(limits.host, limits.block_size, limits.window) if limits.host else None
    return VllmV0(pool, watermark, limits.batch, budget, host)


class Named:
    """Identities of blocks of requests: what a trace says of prompts; all else is a request's own."""

    def __init__(self, prefix: Prefix, size: int) -> None:
        self.prefix, self.size = prefix, size

    def __call__(self, request: LiveRequest, k: int) -> Hashable:
        """See `Identity`."""
        inside = (k + 1) * self.size <= self._tokens(request)
        mine = self.prefix.block(request.number, k, self.size) if inside else None
        return (request.number, k) if mine is None else ("shared", mine)

    def _tokens(self, request: LiveRequest) -> int:
        return min(named_tokens(self.prefix, request.number, request.prompt), max(request.last - 1, request.prompt))

    def numbers(self, requests: Sequence[LiveRequest]) -> list[np.ndarray]:
        """Of the full blocks of each prompt, and of its answer as far as it is known, -1: its own."""
        whole = [self._tokens(request) // self.size for request in requests]
        return self.prefix.numbered([request.number for request in requests], whole, self.size)


def _vllm_v1(limits: Limits, budget: int, kind: type[VllmV1] = VllmV1) -> Scheduler:
    pool: Blocks | PrefixPool = _pool(limits, unused=1)
    if prefix := limits.prefix:
        pool = PrefixPool(limits.blocks - 1, limits.block_size, Named(prefix, limits.block_size))
    made = kind(pool, limits.batch, budget, limits.longest + 1, limits.threshold)
    made.admit_by(limits.ahead, whole=limits.whole)
    return made


def _paged(kind: Callable[..., Scheduler]) -> Callable[[Limits, int], Scheduler]:
    def made(limits: Limits, budget: int) -> Scheduler:
        if limits.batch < limits.stages:
            raise UserError(f"--batch {limits.batch}: expected at least {limits.stages}, one for each stage of --pp")
        pool = _pool(limits, spare=limits.watermark)
        return kind(pool, limits.watermark, limits.batch, budget, limits.stages)

    return made


def _light(limits: Limits, budget: int) -> Scheduler:
    tokens = Blocks(limits.blocks * limits.block_size, 1, limits.window)
    return LightLlm(tokens, limits.batch, budget, PATIENCE)


SCHEDULERS: dict[str, Callable[[Limits, int], Scheduler]] = {
    "vllm-v1": _vllm_v1,
    "vllm-v0": _vllm_v0,
    "sarathi": _paged(Sarathi),
    "orca": lambda limits, budget: Orca(*_worst(limits)),
    "lightllm": _light,
    "faster-transformer": lambda limits, budget: FasterTransformer(*_worst(limits)),
    "static": lambda limits, budget: Static(*_worst(limits), limits.positions),
    "vidur-vllm": _paged(VidurVllm),
    "vidur-sarathi": _paged(VidurSarathi),
}
IN_POOLS = ("vllm-v1", "distserve", "splitwise")
SIDES: dict[str, Callable[[Limits, int], Scheduler]] = {  # of a scheduler in pools: that of prompts, and of decode
    "vllm-v1 prompts": partial(_vllm_v1, kind=VllmV1Prompts),
    "vllm-v1 decode": partial(_vllm_v1, kind=VllmV1Decodes),
    "distserve prompts": lambda limits, budget: DistServePrompts(_pool(limits), limits.batch, budget),
    "distserve decode": lambda limits, budget: DistServeDecodes(_pool(limits), limits.batch),
    "semi-pd": lambda limits, budget: SharedPrompts(SharedDecodes(_pool(limits), limits.batch), budget),
    **dict.fromkeys(
        ("splitwise prompts", "splitwise decode"),
        lambda limits, budget: Splitwise(_pool(limits), limits.batch, budget),
    ),
}
SHARING = ("semi-pd",)  # both phases on shares of one machine
ONLY = {
    "chunked": "vllm-v0", "host": "vllm-v0", "threshold": "vllm-v1", "prefix": "vllm-v1", "ahead": "vllm-v1",
    "whole": "vllm-v1",
}  # fmt: skip
STAGES_IN_POOLS = ("distserve",)
ONE_STAGE = ("vllm-v0", "vllm-v1", "lightllm")


def check_name(name: str) -> None:
    """Raise UserError for a scheduler that is none."""
    known = list(dict.fromkeys([*SCHEDULERS, *IN_POOLS, *SHARING]))
    if name not in known:
        raise UserError(f"--scheduler {name}: expected one of {', '.join(known)}{nearest(name, known)}")


def scheduler_of(name: str, limits: Limits) -> Scheduler:
    """A scheduler with all its memory free. Raises UserError."""
    return (SCHEDULERS | SIDES)[name](limits, limits.budget(name))
