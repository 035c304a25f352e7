# amaranth: UnusedElaboratable=no
"""A matrix-vector product on the PIM channel's gates, beside the engine's clocks and the functional model's numbers."""

from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import msgspec
import numpy as np

from pimloom.arch.command import Role
from pimloom.arch.part import Part
from pimloom.arch.table import Table, compile_table
from pimloom.cycle_sim.dram.stream import issue
from pimloom.mappers.gemv import product, write_columns
from pimloom.mappers.geometry import Geometry, geometry
from pimloom.mappers.layout import Packed
from pimloom.rtl.command import command_layout
from pimloom.rtl.flow.simulator.environment import Simulator
from pimloom.rtl.flow.simulator.run import simulate
from pimloom.rtl.pim_channel import PimChannel, row_layout
from pimloom.rtl.pim_unit import PimUnit
from pimloom.rtl.ports import pack
from pimloom.rtl.verilog import to_verilog
from pimloom.systems.devices.functional import Memory

BENCH = "pimloom.rtl.flow.benches.channel"
TOP = "pim_channel"
BF16 = ml_dtypes.bfloat16
DRAIN_CK = 100  # clocks without a command, after the last result has come out


class Product(NamedTuple):
    """y = x W on one channel: commands to write W and to multiply, and all they need and give.

    kept: rows that the gates' banks hold.
    """

    part: Part
    kept: int
    stream: np.ndarray  # STREAM
    data: np.ndarray  # bfloat16[words, lanes], in the order in which commands take them
    results: np.ndarray  # bfloat16[results, banks], what the functional model returns


class Returned(NamedTuple):
    """What the gates did. same: the commands left as they came. issue_ck: their clocks, in order; model_ck: the
    engine's. refresh_ck, model_refresh_ck: of refresh. results: bfloat16[results, banks]; result_ck: their clocks, and
    model_result_ck: those that the unit's latency makes of the engine's. reads: bfloat16[reads, lanes]."""

    same: bool
    issue_ck: np.ndarray
    model_ck: np.ndarray
    refresh_ck: np.ndarray
    model_refresh_ck: np.ndarray
    results: np.ndarray
    result_ck: np.ndarray
    model_result_ck: np.ndarray
    reads: np.ndarray
    underrun: bool
    seconds: float


def shrink_banks(part: Part, bank_groups: int, banks_per_group: int) -> Part:
    """The part with so many bank groups and banks in each, otherwise unchanged."""
    small = msgspec.structs.replace(part.organization, bank_groups=bank_groups, banks_per_group=banks_per_group)
    return msgspec.structs.replace(part, organization=small)


def make_product(part: Part, w: np.ndarray, x: np.ndarray) -> Product:
    """W, bfloat16[n_in, n_out], written bank by bank and multiplied with x, bfloat16[n_in], at most a row long."""
    table, geo = compile_table(part), geometry(part, 1)
    layout = Packed(geo, *w.shape)
    memory = Memory(table, geo, layout.rows)
    memory.store(layout, w)
    vector = np.zeros((1, 1, geo.row), BF16)
    vector[0, 0, : len(x)] = x
    multiply = product(table, layout)
    words = memory.cells[0].reshape(-1, geo.lane)
    loads = vector[0, 0].reshape(-1, geo.lane)[: layout.chunks[0] // geo.lane]
    return Product(
        part,
        1 << (layout.rows - 1).bit_length(),
        np.concatenate([_write_all(table, geo, layout.rows), multiply]),
        np.concatenate([words, loads]),
        memory.multiply(multiply, vector),
    )


def _write_all(table: Table, geo: Geometry, rows: int) -> np.ndarray:
    """Every column of every row of every bank, as a host would: opened, written, closed."""
    columns = geo.row // geo.lane
    return write_columns(table, geo, ((bank, row, 0, columns) for bank in range(geo.banks) for row in range(rows)))


def random_product(part: Part, banks: tuple[int, int], commands: int, seed: int) -> Product:
    """Of W with as many outputs as make about `commands` commands, its input one row long."""
    rng, row = np.random.default_rng(seed), part.organization.columns
    n_in = geometry(part, 1).row
    n_out = max(1, commands // (row * (1 + banks[0] * banks[1]))) * banks[0] * banks[1]
    w, x = rng.normal(size=(n_in, n_out)).astype(BF16), rng.normal(size=n_in).astype(BF16)
    return make_product(shrink_banks(part, *banks), w, x)


def mismatches(job: Product, found: Returned) -> list[str]:
    """A sentence for every clock and every result that differs from the models'."""
    if not found.same or found.underrun:
        return ["the commands on the bus are not those of the stream"]
    pairs = zip(found.issue_ck.tolist(), found.model_ck.tolist(), strict=True)
    wrong = [f"command {i} issued at CK {got}, model says {want}" for i, (got, want) in enumerate(pairs) if got != want]
    if not np.array_equal(found.refresh_ck, found.model_refresh_ck):
        refresh = compile_table(job.part).refresh
        at, want_at = found.refresh_ck.tolist(), found.model_refresh_ck.tolist()
        wrong.append(f"{refresh} issued at CK {at}, model says {want_at}")
    if not np.array_equal(found.result_ck, found.model_result_ck):
        wrong.append(f"results came at CK {found.result_ck.tolist()}, model says {found.model_result_ck.tolist()}")
    if len(found.results) != len(job.results):
        return [*wrong, f"{len(found.results)} results came, model says {len(job.results)}"]
    bits = zip(
        found.results.view(np.uint16).ravel().tolist(), job.results.view(np.uint16).ravel().tolist(), strict=True
    )
    return wrong + [
        f"result {i} is {got:#06x}, model says {want:#06x}" for i, (got, want) in enumerate(bits) if got != want
    ]


def run_product(job: Product, *, simulator: Simulator = "verilator", waves: Path | None = None) -> Returned:
    """Run it on the gates and on the engine, refresh on."""
    return run_channel(job.part, job.kept, job.stream, job.data, simulator=simulator, waves=waves)


def run_channel(
    part: Part,
    kept: int,
    stream: np.ndarray,
    data: np.ndarray,
    lanes: np.ndarray | None = None,
    *,
    simulator: Simulator = "verilator",
    waves: Path | None = None,
) -> Returned:
    """Run a stream on the gates and on the engine, refresh on. lanes: of each word of data, where a write to all banks
    puts it."""
    channel = PimChannel(part, kept)
    table, latency = channel.table, PimUnit(part).latency + 1
    given = {
        "rows": pack(row_layout(table, channel.most), stream),
        "data": data.view(np.uint16),
        "lanes": np.zeros(len(data), np.int64) if lanes is None else lanes,
        "drain": np.array(latency + DRAIN_CK),
    }
    left = simulate(to_verilog(channel, TOP), TOP, BENCH, given, simulator=simulator, waves=waves)
    one_by_one = _unroll(stream)
    model = issue(table, [one_by_one])
    clock, source, command = left["issued"].T
    mine = source == channel.stream_source
    same = np.array_equal(command[mine], pack(command_layout(table), one_by_one))
    read_out = model.issue_ck[0][one_by_one["cmd"] == table.role(Role.RESULTS)]
    return Returned(
        same, clock[mine], model.issue_ck[0], clock[~mine], model.refresh_ck[:, 0],
        left["results"].view(BF16), left["results_ck"], read_out + latency, left["reads"].view(BF16),
        bool(left["underrun"]), float(left["seconds"]),
    )  # fmt: skip


def _unroll(stream: np.ndarray) -> np.ndarray:
    """Every command on a row of its own."""
    rows = np.repeat(stream, stream["count"])
    first = np.repeat(np.cumsum(stream["count"]) - stream["count"], stream["count"])
    rows["col"] += (np.arange(len(rows)) - first).astype(np.int32)
    rows["count"] = 1
    return rows
