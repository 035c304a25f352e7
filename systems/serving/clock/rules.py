"""Which schedulers the kernels know, and their limits as numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pimloom.systems.serving.kernels import fields as f
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.faster_transformer import FasterTransformer
from pimloom.systems.serving.schedulers.live import Scheduler
from pimloom.systems.serving.schedulers.orca import Orca
from pimloom.systems.serving.schedulers.prefix_pool import PrefixPool
from pimloom.systems.serving.schedulers.sarathi import Sarathi, VidurSarathi
from pimloom.systems.serving.schedulers.static import Static
from pimloom.systems.serving.schedulers.vidur_vllm import VidurVllm
from pimloom.systems.serving.schedulers.vllm_v0 import VllmV0
from pimloom.systems.serving.schedulers.vllm_v1 import VllmV1

Numbers = dict[int, int]


def limits_of(scheduler: Scheduler) -> np.ndarray | None:
    """limits[…] of a scheduler that has not begun; None if the kernels do not have its rule."""
    made = RULES.get(type(scheduler))
    found = made(scheduler) if made and type(scheduler.blocks) in (Blocks, PrefixPool) else None
    if found is None:
        return None
    limits = np.zeros(f.N_LIMITS, np.int64)
    pool = scheduler.blocks
    found |= {f.TOTAL: pool.total, f.SIZE: pool.size}
    if isinstance(pool, Blocks) and pool.window:
        found |= {f.TOTAL: pool.units, f.MOST_WINDOWED: pool.most_windowed}
        found |= {f.UNWINDOWED: pool.window.full, f.WINDOWED: pool.window.windowed}
    limits[list(found)] = list(found.values())
    return limits


def _vllm_v1(of: Any) -> Numbers:
    return {
        f.RULE: f.VLLM_V1, f.CAP: of.cap, f.MOST: of.most, f.BUDGET: of.budget, f.AHEAD: of.ahead,
        f.MOST_BLOCKS: of.most_blocks, f.LONGEST: of.longest, f.WHOLE: int(of.whole),
        f.SHARES: int(of.shares is not None),
    }  # fmt: skip


def _vllm_v0(of: Any) -> Numbers | None:
    if of.host is not None:
        return None
    return {f.RULE: f.VLLM_V0, f.CAP: of.cap, f.BUDGET: of.budget, f.WATERMARK: of.watermark}


def _paged(of: Any, rule: int, budget: int, **more: int) -> Numbers:
    return {
        f.RULE: rule, f.CAP: of.cap, f.MOST: of.most, f.WATERMARK: of.watermark, f.BUDGET: budget,
    }  # fmt: skip


def _sarathi(of: Any) -> Numbers:
    return _paged(of, f.SARATHI, of.chunk) | {f.SERVED: 1}


def _vidur_sarathi(of: Any) -> Numbers:
    return _paged(of, f.SARATHI, of.chunk) | {f.CUTS: 1}


def _vidur_vllm(of: Any) -> Numbers:
    return _paged(of, f.VIDUR_VLLM, of.most_tokens)


def _whole(rule: int) -> Callable[[Any], Numbers]:
    return lambda of: {f.RULE: rule, f.CAP: of.most, f.MOST: of.most, f.RESERVED: of.reserved}


def _together(of: Any) -> Numbers:
    return _whole(f.TOGETHER)(of) | {f.LEAK: int(of.leak)}


RULES: dict[type[Scheduler], Callable[[Any], Numbers | None]] = {
    VllmV1: _vllm_v1,
    VllmV0: _vllm_v0,
    Sarathi: _sarathi,
    VidurSarathi: _vidur_sarathi,
    VidurVllm: _vidur_vllm,
    Orca: _whole(f.ORCA),
    FasterTransformer: _together,
    Static: lambda of: _whole(f.STATIC)(of) | {f.LONGEST: of.positions},
}
