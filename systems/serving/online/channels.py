"""Whether each request's keys and values lie in one channel of PIM, and what that gave."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError
from pimloom.arch.system import System
from pimloom.mappers.kv_pages import KvPages
from pimloom.systems.devices.device import Device
from pimloom.systems.serving.options.named import SIDES, Limits
from pimloom.systems.serving.options.wanted import Wanted
from pimloom.systems.serving.results.outcome import Channels
from pimloom.systems.serving.schedulers.channel_blocks import POLICIES, ChannelBlocks
from pimloom.systems.serving.schedulers.channel_rows import Rows
from pimloom.systems.serving.schedulers.live import Scheduler

APART = ("speculate", "branches", "mode", "finetune", "swap", "shares")
WITH = ("vllm-v1", "vllm-v0", "sarathi", "orca", "faster-transformer", "static", "vidur-vllm", "vidur-sarathi")


def channels_of(wanted: Wanted, system: System, device: Device) -> int:
    """In how many parts blocks lie. Raises UserError."""
    if (policy := wanted.policy) is None:
        return 1
    if policy not in POLICIES:
        raise UserError(f"--policy {policy}: expected one of {', '.join(POLICIES)}{nearest(policy, POLICIES)}")
    channels, in_pools = int(getattr(device, "channels", 1)), wanted.scheduler in SIDES
    if channels == 1 and in_pools:
        return 1  # the other pool may have some
    if channels == 1:
        raise nowhere(policy, system.name)
    for option in APART:
        if getattr(wanted, option):
            raise UserError(
                f"--{option}: beside --policy a request is on one machine, token by token; leave one of the two out"
            )
    if wanted.scheduler not in WITH and not in_pools:
        raise UserError(f"--policy {policy}: {wanted.scheduler} knows but one pool; take one of {', '.join(WITH)}")
    if wanted.blocks is not None and wanted.blocks % channels:
        raise UserError(
            f"--blocks {wanted.blocks}: {channels} channels share them evenly (--policy); take a multiple of {channels}"
        )
    return channels


def rows_of(wanted: Wanted, device: Device, tokens: int, positions: int, window: int | None) -> Rows | None:
    """Rows of a channel with room for so many tokens; None if --blocks says what room there is. positions: most tokens
    of a request; window: tokens that all layers keep at most."""
    if wanted.blocks is not None:
        return None
    several: Any = device
    pages: KvPages = several.kv_pages(tokens)
    blocks = np.arange(-(-(positions + 1) // wanted.block_size) + 1) * wanted.block_size
    kept = blocks if window is None else np.minimum(blocks, window)
    return Rows(tuple(pages.rows(kept).tolist()), pages.rows_of_channel)


def nowhere(policy: str, *names: str) -> UserError:
    """What to say where requests do not lie in channels."""
    there = " and ".join(dict.fromkeys(names))
    return UserError(
        f"--policy {policy}: keys and values of a request lie all over the memory of {there}, none has a channel of "
        "its own; leave it out, or take an NPU with PIM, such as neupims"
    )


def channels_told(limits: Limits, schedulers: Sequence[Scheduler]) -> Channels | None:
    """None where blocks lie anywhere."""
    if limits.policy is None:
        return None
    pools = [cast(ChannelBlocks, scheduler.blocks) for scheduler in schedulers]
    most = [pool.blocks_of(n) for pool in pools for n in pool.most]
    return Channels(limits.policy, limits.channels, limits.each, most)
