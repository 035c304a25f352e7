"""A GPU's layers in a decode step: tiles that fit its caches, a roofline on what they fetch, and links.

The model and its constants are those of AttAcc's simulator [secondary A] (scale-snu/attacc_simulator@c600051,
`src/devices.py`, `src/config.py`), which was compared with a DGX A100 on OPT-66B; no error was published.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np

from pimloom.arch.link import Fabric
from pimloom.arch.units import BITS_PER_BYTE, BYTES_PER_GB, FLOP_PER_TFLOP, KIB, MIB, S_PER_PS, S_PER_US
from pimloom.cycle_sim import link as collectives
from pimloom.energy.attacc import gpu_energy
from pimloom.energy.ledger import Ledger
from pimloom.systems.reference.attacc import Slips

PEAK_SHARE, MEMORY_SHARE = 0.8, 0.85  # [secondary A] of the peak rates that can be had
TILES = (8, 16, 32, *range(64, 513, 64))  # [secondary A] edges of a tile in L1
L1_DEPTH, L2_DEPTHS, REGISTER_TILE = 32, 64, 16  # [secondary A] depth in L1; slices of the depth in L2; edge
ACTIVATION_US, ACTIVATION_US_PER_BYTE = 8.29, 4.47e-7  # [secondary A] fitted to an A100 of 1555 GB/s
NORM_US, NORM_US_PER_BYTE = 6.87, 1.6e-6  # [secondary A] likewise
FITTED_GB_S = 1555  # [secondary A] memory of the A100 of these fits
LINK_US, LINK_US_PER_BYTE, FITTED_LINK_GB_S = 6.06, 0.009e-3, 600  # [secondary A] one step of an all-reduce


class Gpu(NamedTuple):
    """One GPU, or a processor: streaming multiprocessors or cores, peak rate, memory and links both ways, caches of one
    of them and of all."""

    cores: int
    peak_tflops: float
    memory_gb_s: float
    link_gb_s: float
    l1_bytes: int
    l2_bytes: int


A100A = Gpu(108, 312, 3352, 600, 192 * KIB, 40 * MIB)  # [secondary A] an A100 with HBM3
H100 = Gpu(132, 989.4, 3352, 900, 256 * KIB, 50 * MIB)  # [secondary A]
HOST = Gpu(64, 4, 200, 256, 96 * KIB, 256 * MIB)  # [secondary A] a processor of the A100 box, with four PCIe links


class Matrix(NamedTuple):
    """`products` of m x k with k x n elements; `split`: their tiles are blocks, else each product is one."""

    m: float
    n: float
    k: float
    products: int = 1
    split: bool = True

    @property
    def multiply_adds(self) -> float:
        """Of all products."""
        return self.m * self.n * self.k * self.products


class Cost(NamedTuple):
    """Of one layer on one GPU. by_memory: what bounds it; macs: multiply-adds of its matrices; sent_bytes: over links;
    least: seconds of its work alone at full rate, by what does it, as `Run` has them."""

    seconds: float
    by_memory: bool
    energy: Ledger
    macs: float = 0.0
    sent_bytes: float = 0.0
    least: Mapping[str, float] = {}


def product(gpu: Gpu, work: Matrix, element_bytes: int, slips: Slips) -> Cost:
    """A layer of matrix products."""
    l1, l2 = _tiles(gpu, work, element_bytes)
    fetched = _traffic(work, l2) * element_bytes
    share = _occupancy(gpu, _blocks(work, l1))
    compute = _compute_s(gpu, 2 * work.multiply_adds, share, element_bytes)
    memory = fetched / _memory_rate(gpu, share, slips)
    cached = _traffic(work, l1) * element_bytes, _traffic(work, (REGISTER_TILE, REGISTER_TILE)) * element_bytes
    registers = 3 * work.multiply_adds / (work.products if slips.registers_of_one_head else 1)
    energy = gpu_energy(fetched, *cached, registers, work.multiply_adds)
    least = _least(gpu, 2 * work.multiply_adds, fetched, element_bytes)
    return Cost(max(compute, memory), compute <= memory, energy, work.multiply_adds, least=least)


def softmax(gpu: Gpu, values: float, count: int, element_bytes: int, slips: Slips) -> Cost:
    """Of `count` rows with this many values."""
    moved, flops = 2 * values * count * element_bytes, 5 * values * count
    share = _occupancy(gpu, count)
    return _of_vectors(gpu, moved / _memory_rate(gpu, share, slips), flops, share, moved, element_bytes)


def activation(gpu: Gpu, elements: float, element_bytes: int, slips: Slips, *, gated: bool) -> Cost:
    """GELU, or what a gate does: another operand and operation."""
    moved = (3 if gated else 2) * elements * element_bytes
    seconds = (ACTIVATION_US + ACTIVATION_US_PER_BYTE * FITTED_GB_S / gpu.memory_gb_s * moved) * S_PER_US
    return _of_vectors(gpu, seconds, (9 if gated else 8) * elements, _cores(gpu, slips), moved, element_bytes)


def norm(gpu: Gpu, elements: float, element_bytes: int, slips: Slips) -> Cost:
    """A layer norm behind a residual sum."""
    moved = 3 * elements * element_bytes
    seconds = (NORM_US + NORM_US_PER_BYTE * FITTED_GB_S / gpu.memory_gb_s * moved) * S_PER_US
    return _of_vectors(gpu, seconds, 5 * elements, _cores(gpu, slips), moved, element_bytes)


def all_reduce_cost(fabric: Fabric, collective_us: float, gpus: int, n_bytes: int, slips: Slips) -> Cost:
    """Of so many bytes on each of the GPUs; energy of one of them."""
    if gpus == 1:
        drawn = n_bytes if slips.links_of_one_gpu else 0
        pj = (fabric.near.pj_per_bit or 0.0) * BITS_PER_BYTE * drawn
        return Cost(0.0, True, Ledger({"links": pj}), sent_bytes=drawn, least={"link": 0.0})
    sent = collectives.all_reduce(fabric, n_bytes, gpus)
    seconds, pj = collective_us * S_PER_US + sent.ps * S_PER_PS, sent.pj(fabric) / gpus
    return Cost(seconds, True, Ledger({"links": pj}), sent_bytes=sent.all_bytes / gpus, least={"link": seconds})


def fitted_all_reduce(gpu: Gpu, pj_per_bit: float, gpus: int, moved: float, slips: Slips) -> Cost:
    """The same by the fit of the authors' simulator."""
    if gpus == 1 and not slips.links_of_one_gpu:
        moved = 0.0
    each = moved / gpus
    latency = (LINK_US + LINK_US_PER_BYTE * FITTED_LINK_GB_S / gpu.link_gb_s * each) * S_PER_US
    step = max(latency, each / (gpu.link_gb_s * BYTES_PER_GB / 2))
    seconds = step * (gpus - 1)
    pj = pj_per_bit * BITS_PER_BYTE * moved
    return Cost(seconds, True, Ledger({"links": pj}), sent_bytes=moved, least={"link": seconds})


def _of_vectors(gpu: Gpu, memory: float, flops: float, share: float, moved: float, element_bytes: int) -> Cost:
    compute = _compute_s(gpu, flops, share, element_bytes)
    energy = gpu_energy(moved, moved, moved, moved, flops / 2)
    least = _least(gpu, flops, moved, element_bytes)
    return Cost(max(compute, memory), compute <= memory, energy, least=least)


def _least(gpu: Gpu, flops: float, moved: float, element_bytes: int) -> dict[str, float]:
    compute = flops / (gpu.peak_tflops * FLOP_PER_TFLOP * int(2 / element_bytes))
    return {"compute": compute, "memory bandwidth": moved / (gpu.memory_gb_s * BYTES_PER_GB)}


def _compute_s(gpu: Gpu, flops: float, share: float, element_bytes: int) -> float:
    return flops / (gpu.peak_tflops * FLOP_PER_TFLOP * PEAK_SHARE * share * int(2 / element_bytes))


def _memory_rate(gpu: Gpu, share: float, slips: Slips) -> float:
    """Bytes a second, while this share of the cores is busy."""
    return gpu.memory_gb_s * BYTES_PER_GB * MEMORY_SHARE * (share if slips.occupancy_of_memory else 1)


def _occupancy(gpu: Gpu, blocks: int) -> float:
    """Share of the cores that blocks keep busy, the last wave included."""
    return blocks / (ceil(blocks / gpu.cores) * gpu.cores)


def _cores(gpu: Gpu, slips: Slips) -> float:
    """Share of the cores on which elements are computed that do not depend on one another."""
    return _occupancy(gpu, 1) if slips.vectors_of_one_core else 1.0


def _blocks(work: Matrix, tile: tuple[float, float]) -> int:
    return work.products * (ceil(work.m / tile[0]) * ceil(work.n / tile[1]) if work.split else 1)


def _traffic(work: Matrix, tile: tuple[float, float]) -> float:
    """Elements that cross a boundary behind which a tile of the result is kept."""
    m, n, k = work.m, work.n, work.k
    return work.products * (ceil(n / tile[1]) * m * k + ceil(m / tile[0]) * n * k + m * n)


@lru_cache(maxsize=4096)
def _tiles(gpu: Gpu, work: Matrix, element_bytes: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Edges of the tiles in L1, for least traffic over the square of the occupancy, and in L2, for least traffic."""
    best, least = (1.0, 1.0), float("inf")
    rows, columns = (dict.fromkeys(min(edge, whole) for edge in TILES) for whole in (work.m, work.n))
    for tile in ((a, b) for a in rows for b in columns):
        if _kept(tile, L1_DEPTH, element_bytes) > gpu.l1_bytes:
            continue
        cost = _traffic(work, tile) / _occupancy(gpu, _blocks(work, tile)) ** 2
        if cost < least:
            best, least = tile, cost
    return best, _outer_tile(gpu, work, best, element_bytes)


def _kept(tile: tuple[float, float], depth: float, element_bytes: int) -> float:
    return ((tile[0] + tile[1]) * depth + tile[0] * tile[1]) * element_bytes


def _outer_tile(gpu: Gpu, work: Matrix, inner: tuple[float, float], element_bytes: int) -> tuple[float, float]:
    edges = [
        np.array([*(edge * np.arange(1, int(whole / edge) + 1)), whole], float)
        for whole, edge in zip((work.m, work.n), inner, strict=True)
    ]
    rows, columns = np.meshgrid(*edges, indexing="ij")
    kept = ((rows + columns) * work.k / L2_DEPTHS + rows * columns) * element_bytes
    fits = (kept <= gpu.l2_bytes) | ((rows == inner[0]) & (columns == inner[1]))
    loads = np.ceil(work.m / rows) * work.n * work.k + np.ceil(work.n / columns) * work.m * work.k
    at = np.unravel_index(np.argmin(np.where(fits, loads, np.inf)), rows.shape)
    return float(rows[at]), float(columns[at])
