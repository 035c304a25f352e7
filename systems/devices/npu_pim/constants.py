"""Algorithm 1's constants, measured on a channel of the system instead of taken from the paper."""

from collections.abc import Callable

import numpy as np

from pimloom.arch.command import Role
from pimloom.arch.digest import digest
from pimloom.arch.pim_channel import PimChannel
from pimloom.cycle_sim.npu_pim.alone import issue
from pimloom.cycle_sim.npu_pim.places import PLACE
from pimloom.mappers.kv import Shape, attend, logit
from pimloom.mappers.packing import Constants

TILES = (1, 2, 4, 8, 16)  # behind a GWRITE; 16 are the keys of 512 tokens
PERIODS = 16  # of refresh, that a stream is watched for after the first one

_known: dict[str, Constants] = {}


def derived_constants(spec: PimChannel, shape: Shape) -> Constants:
    """Long-run averages of a GWRITE, a tile of logit and a tile of attend [CK], refresh included.

    Streams of a GWRITE and n tiles each, again and again, run alone; in whole refresh periods each issues so many
    GWRITEs and tiles. Least squares over all n and both kinds give what one of each costs. Known ones are remembered.
    """
    key = digest(spec.device(), spec.mode, spec.controller, spec.rules, spec.pim_precharge, shape._asdict())
    if key not in _known:
        _known[key] = _measure(spec, shape)
    return _known[key]


def _measure(spec: PimChannel, shape: Shape) -> Constants:
    fused, watched = spec.mode == "dual", PERIODS * spec.part.cycles("tREFI")
    one = shape._replace(heads=1, kv_heads=1)
    heads = max(shape.row // shape.head_dim, 1)

    def keys(n: int, row: int) -> np.ndarray:
        held = min(heads, shape.kv_heads)
        few = shape._replace(heads=held, kv_heads=held)
        return logit(few, n * shape.banks, row, fused=fused, exact=True)

    def values(n: int, row: int) -> np.ndarray:
        return attend(one._replace(head_dim=n * shape.banks), shape.row, row, fused=fused, exact=True)

    rows = []
    for kind, stream in enumerate((keys, values)):
        for n in TILES:
            gwrites, tiles = _issued(spec, stream, n)
            rows.append((gwrites, tiles * (kind == 0), tiles * (kind == 1)))
    found = np.linalg.lstsq(np.array(rows, float), np.full(len(rows), float(watched)), rcond=None)[0]
    return Constants(*found.tolist())


def _issued(spec: PimChannel, stream: Callable[[int, int], np.ndarray], tiles: int) -> tuple[int, int]:
    """GWRITEs and tiles that issue in the watched periods while `stream` of so many tiles repeats, on row after row."""
    period = spec.part.cycles("tREFI")
    start, end, gwrite, header = period, (1 + PERIODS) * period, PLACE[Role.COPY], PLACE[Role.ANNOUNCE]
    repeats = 8
    while True:
        whole = np.concatenate([stream(tiles, i * tiles) for i in range(repeats)])
        done, commands = issue(spec, whole)
        if done > end:
            break
        repeats *= 2
    clock, command = commands.T
    inside = command[(clock >= start) & (clock < end)]
    return int((inside == gwrite).sum()), int((inside == header).sum())
