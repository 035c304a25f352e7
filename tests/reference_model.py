"""PIM-GPT's closed form, typed from its specification (3.3, 3.4, 3.6): an oracle that shares nothing with pimloom.

Times in ns, sizes in BF16 values; a model is (layers, d, heads).
"""

from functools import cache
from math import ceil
from typing import NamedTuple

MODELS = {
    "gpt2": (12, 768, 12),
    "gpt2-medium": (24, 1024, 16),
    "gpt2-large": (36, 1280, 20),
    "gpt2-xl": (48, 1600, 25),
    "gpt3-small": (12, 768, 12),
    "gpt3-medium": (24, 1024, 16),
    "gpt3-large": (24, 1536, 16),
    "gpt3-xl": (24, 2048, 16),
}
REFRESH = 6825 / (6825 - 455)  # of tREFI = 6825 ns, tRFC = 455 ns are lost
LANE, ROW, BURST = 16, 1024, 16
PARTS = ("QKV", "projection", "FFN1", "FFN2", "attention", "ASIC")


class Memory(NamedTuple):
    """PIM channels and timings [ns]; attention_row: what a row costs in score and p V, where it differs."""

    channels: int = 8
    tRCD: float = 12
    tRP: float = 12
    tWR: float = 12
    attention_row: float | None = None
    serial: bool = False  # results are read behind the MACs, not beside them

    @property
    def banks(self) -> int:
        return 16 * self.channels

    @property
    def row(self) -> float:
        return self.tRCD + self.tRP


class Asic(NamedTuple):
    """Clock [GHz] and pipeline depth of a nonlinear operation [ASIC cycles]."""

    ghz: float = 1.0
    fill: int = 0


PIM, ASIC = Memory(), Asic()


class Cost(NamedTuple):
    """Time of one layer by part [ns], and what one bank did."""

    time: dict[str, float]
    accesses: int
    misses: int

    @property
    def asic(self) -> float:
        return self.time["ASIC"]

    @property
    def total(self) -> float:
        return sum(self.time.values())


def c(n: int) -> int:
    """Chunks of at most one row."""
    return ceil(n / ROW)


class Vmm(NamedTuple):
    """Counts of one product y = x W, per bank."""

    n_in: int
    n_out: int
    banks: int = 128

    @property
    def cols(self) -> int:
        return ceil(self.n_out / self.banks)

    @property
    def macs(self) -> int:
        return self.cols * ceil(self.n_in / LANE)

    @property
    def rows(self) -> int:
        return ceil(self.cols * self.n_in / ROW)

    def time(self, m: Memory) -> float:
        results = self.cols * c(self.n_in) if m.serial else 1
        return self.n_in / BURST + self.macs * 1 + self.rows * m.row + results * 1


def products(d: int, banks: int) -> dict[str, Vmm]:
    """The four products of a layer."""
    shapes = ((d, 3 * d), (d, d), (d, 4 * d), (4 * d, d))
    return {part: Vmm(*shape, banks) for part, shape in zip(PARTS, shapes, strict=False)}


@cache
def of_any_token(d: int, m: Memory) -> Cost:
    """What the four products of a layer take."""
    vmm = products(d, m.banks)
    each = {part: v.time(m) for part, v in vmm.items()}
    return Cost(each, sum(v.macs for v in vmm.values()), sum(v.rows for v in vmm.values()))


def layer(d: int, h: int, t: int, m: Memory = PIM, a: Asic = ASIC) -> Cost:
    """One layer at position t (specification 3.4)."""
    alike, nb = of_any_token(d, m), m.banks
    time = dict(alike.time)
    row = m.row if m.attention_row is None else m.attention_row
    per_bank, dims = ceil(t / nb), ceil(d / nb)
    k_write = d / BURST + c(d) * (m.tRCD + m.tRP + m.tWR)
    v_write = dims * (m.tRCD + 1 + m.tWR + m.tRP)
    score_macs, score_rows = per_bank * h * ceil(d // h / LANE), ceil(per_bank * d / ROW)
    score = d / BURST + score_macs * 1 + score_rows * row + (per_bank * h if m.serial else 1)
    sum_macs, sum_rows = dims * ceil(t / LANE), dims * c(t)
    weighted_sum = dims * t / BURST + sum_macs * 1 + sum_rows * row
    time["attention"] = k_write + v_write + score + weighted_sum
    cycles = (
        2 * 3 * ceil(d / 128)
        + ceil(h * t / 128)
        + ceil(4 * d / 128)
        + 4 * a.fill
        + ceil(3 * d * c(d) / 256)
        + ceil(d * (c(d) + 1) / 256)
        + ceil(4 * d * c(d) / 256)
        + ceil(d * (c(4 * d) + 1) / 256)
    )
    time["ASIC"] = cycles / a.ghz
    accesses = alike.accesses + ceil(d / LANE) + dims + score_macs + sum_macs
    misses = alike.misses + c(d) + dims + score_rows + sum_rows
    return Cost(time, accesses, misses)


class Run(NamedTuple):
    """Averages over tokens 1 to T; `us_per_token` with refresh unless it is off."""

    us_per_token: float
    non_vmm: float
    row_hit: float


@cache
def run(name: str, m: Memory = PIM, a: Asic = ASIC, tokens: int = 1024, refresh: float = REFRESH) -> Run:
    """Generate `tokens` tokens."""
    layers, d, h = MODELS[name]
    costs = [layer(d, h, t, m, a) for t in range(1, tokens + 1)]
    total = sum(x.total for x in costs)
    hit = 1 - sum(x.misses for x in costs) / sum(x.accesses for x in costs)
    return Run(layers * total * refresh / tokens / 1000, sum(x.asic for x in costs) / total, hit)


def moved(d: int, h: int, t: int) -> int:
    """Values that cross the interface for one layer and token (3.6)."""
    sent = 8 * (d + d + d + d + 4 * d) + h * t
    results = 3 * d * c(d) + h * t + d * c(t) + d * c(d) + 4 * d * c(d) + d * c(4 * d)
    return sent + results + 2 * d


def data_reduction(d: int, h: int, tokens: int = 1024, write_back: bool = True) -> float:
    """Values a processor without PIM reads, over those that cross the interface."""
    ts = range(1, tokens + 1)
    less = 0 if write_back else 2 * d
    return sum(12 * d**2 + 2 * d * t for t in ts) / sum(moved(d, h, t) - less for t in ts)


def weight_rows(name: str) -> int:
    """Rows of a bank that all weights take (3.3)."""
    layers, d, _ = MODELS[name]
    return layers * sum(v.rows for v in products(d, 128).values())


def max_tokens(name: str) -> int:
    """Largest token count, in steps of 128, whose K and V fit beside the weights in 16,384 rows (3.3)."""
    layers, d, _ = MODELS[name]

    def rows(t: int) -> int:
        return ceil(ceil(t / 128) * d / ROW) + ceil(d / 128) * ceil(t / ROW)

    t = 0
    while weight_rows(name) + layers * rows(t + 128) <= 16384:
        t += 128
    return t
