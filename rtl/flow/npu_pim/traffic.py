"""Random requests for a PIM channel: rows of PIM and of accesses meet, columns repeat, queues fill."""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np

from pimloom.arch.part import Part
from pimloom.arch.pim_channel import Controller, Mode, PimChannel, PrechargeScope
from pimloom.arch.units import Time
from pimloom.rtl.npu_pim.plan import plan_of

DOT = np.dtype([(name, np.int64) for name in ("cmd", "bank", "row", "col", "comps", "results", "last", "when")])
ACCESS = np.dtype([(name, np.int64) for name in ("write", "bank", "row", "col", "when")])
WAIT = 60  # clocks between two bursts of requests, at most


class Size(NamedTuple):
    """Of a small channel: geometry, controller and interval of refresh [CK], which a tile must fit into."""

    ranks: int = 2
    bank_groups: int = 1
    rows: int = 64
    refi_ck: int = 800
    pim_precharge: PrechargeScope = "bank"
    controller: Controller = Controller(
        entries=4, queue_entries=3, pim_queue_entries=6, window=12, row_hit_cap=4, drain_idle=2, pim_floor_ck=10,
        offers_per_ck=2,
    )  # fmt: skip


SMALL = Size()


def small(part: Part, mode: Mode, size: Size = SMALL) -> PimChannel:
    """A channel of the part with few banks and short queues, whose rules and clocks are the part's own.

    A bank group keeps its four banks: the cycle model knows no others.
    """
    changes = {"ranks": size.ranks, "bank_groups": size.bank_groups, "rows": size.rows}
    organization = msgspec.structs.replace(part.organization, **changes)
    timing = {**part.timing, "tREFI": Time(size.refi_ck)}
    shrunk = msgspec.structs.replace(part, organization=organization, timing=timing)
    return PimChannel(shrunk, mode, size.controller, pim_precharge=size.pim_precharge)


class Traffic(NamedTuple):
    """What comes to a channel by its two ways in: PIM commands, and reads and writes; `when`: first clock."""

    pim: np.ndarray
    data: np.ndarray


def draw_traffic(spec: PimChannel, seed: int, accesses: int, tiles: int) -> Traffic:
    """About as many accesses, and tiles of PIM."""
    rng = Random(f"PIM channel in gates {seed}")
    org, mode = spec.part.organization, spec.mode
    rows = rng.sample(range(org.rows), min(rng.choice([2, 3, 6]), org.rows))
    banks = rng.sample(range(org.banks), rng.randint(1, org.banks))
    pause = rng.choice([0, 0, 3, WAIT])
    pim = list(_tiles(rng, spec, rows, tiles, pause)) if mode != "dram" else []
    data, at = list[tuple[int, ...]](), 0
    while len(data) < accesses:
        write, bank, row, col = rng.random() < rng.choice([0.1, 0.5]), rng.choice(banks), rng.choice(rows), 0
        col, few = rng.randrange(org.columns), rng.choice([1, 2, org.columns])
        for i in range(rng.choice([1, 1, 2, 8, 20])):
            data.append((int(write), bank, row, (col + i) % few, at))
        at += rng.randint(0, pause)
    return Traffic(np.array(pim, DOT), np.array(data[:accesses], ACCESS))


def _tiles(rng: Random, spec: PimChannel, rows: list[int], tiles: int, pause: int) -> Iterator[tuple[int, ...]]:
    op, org, at = plan_of(spec).op, spec.part.organization, 0
    for _ in range(tiles):
        bank, row, col = rng.randrange(org.banks), rng.choice(rows), rng.randrange(org.columns)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            yield (op.gwrite, bank, row, col, 0, 0, 0, at)
        for _ in range(rng.randint(0, 3)):
            row, comps, results = rng.choice(rows), rng.randint(1, 33), rng.randint(1, 3)
            yield (op.header, 0, row, 0, comps * results, results, 0, at)
            for i in range(results):
                last = int(i == results - 1)
                if spec.mode == "dual":
                    yield (op.gemv, 0, row, 0, comps, 0, last, at)
                else:
                    for _ in range(comps):
                        yield (op.comp, 0, row, 0, 0, 0, 0, at)
                    yield (op.readres, 0, row, 0, 0, 0, last, at)
        at += rng.randint(0, pause)
