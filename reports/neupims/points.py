"""The simulations behind the NeuPIMs study: which, with which requests, and running them on all cores."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.llm import LlmSpec, load_llm
from pimloom.arch.neupims import Faults
from pimloom.arch.npu_pim import NpuPimSystem
from pimloom.arch.system import System, list_names, load_system
from pimloom.arch.units import ceil_div
from pimloom.cycle_sim.npu_pim.known import kept_in
from pimloom.mappers.kv import Shape
from pimloom.mappers.kv_pages import KvPages
from pimloom.mappers.packing import round_robin
from pimloom.systems.devices.npu_pim.parallel import serve_on_devices
from pimloom.systems.devices.npu_pim.served import Served
from pimloom.systems.devices.roofline_served import serve_gpu
from pimloom.systems.pool import run_all
from pimloom.systems.serving.batching import Rules, decode
from pimloom.systems.serving.decoding import warm_up_of
from pimloom.systems.serving.workload import load_workload

FIDELITIES = ("physical", "released")
LONGEST = 2048  # tokens of a context, as in the authors' lists (trace-generator/get_distributions.py)
DEVICES = {"gpt3-7b": (4, 1), "gpt3-13b": (4, 1), "gpt3-30b": (4, 2), "gpt3-175b": (8, 4)}  # TP, PP of their configs


class Contender(NamedTuple):
    """A bar of the paper: its name there, our system, how its requests are placed, and what is set differently."""

    title: str
    system: str
    policy: str
    settings: tuple[tuple[str, str], ...] = ()


ONE_BATCH = (("interleave.sub_batches", "1"),)
CONTENDERS = {
    "gpu": Contender("GPU-only", "gpu_a100", "round-robin"),
    "npu": Contender("NPU-only", "npu_only", "round-robin"),
    "pim": Contender("NPU+PIM", "npu_pim", "round-robin"),
    "drb": Contender("NPU+PIM, dual row buffers", "neupims", "round-robin", ONE_BATCH),
    "packed": Contender("… and bin packing", "neupims", "min-load", ONE_BATCH),
    "neupims": Contender("… and interleaving", "neupims", "min-load"),
    "served": Contender("NeuPIMs", "neupims", "min-load"),  # see `resolved`
}
INTERLEAVED_FROM = 256  # requests: casys-kaist/NeuPIMs@f299af3, README.md, and the paper's Fig. 13
BARS = ("gpu", "npu", "pim", "served")
STEPS = ("pim", "drb", "packed", "neupims")


class Cell(NamedTuple):
    """A model, a data set, a batch size."""

    model: str
    data: str
    batch: int

    @property
    def text(self) -> str:
        """As one would say it."""
        return f"{self.model}, {self.data}, {self.batch}"


class Point(NamedTuple):
    """One iteration of one contender. flip: a fault that is set against the fidelity; one_stage: of a pipeline, the
    first stage alone, with the whole batch."""

    who: str
    cell: Cell
    fidelity: str = "physical"
    flip: str = ""
    one_stage: bool = False


def resolved(point: Point) -> Point:
    """NeuPIMs as it is served: with two sub-batches from `INTERLEAVED_FROM` requests on, else with one."""
    if point.who != "served":
        return point
    return point._replace(who="neupims" if point.cell.batch >= INTERLEAVED_FROM else "packed")


class Scope(NamedTuple):
    """How much is simulated.

    cells: the throughput matrix; ablation: cells of both fidelities; departures: the cell in which each of `faults` is
    switched; utilisation: the cell of Table 4; traced: model, devices that share its layer and tokens of each request,
    whose timeline is drawn; both_ways: faults are repaired one by one in `released`, too.
    """

    cells: tuple[Cell, ...]
    ablation: tuple[Cell, ...]
    departures: Cell
    utilisation: Cell
    traced: tuple[str, int, int]
    both_ways: bool
    faults: tuple[str, ...] = Faults.__struct_fields__
    seed: int = 0


BATCHES = (64, 128, 256, 384, 512)  # of the paper, 8.1
DATA = ("sharegpt", "alpaca")


def matrix(models: Iterable[str], batches: Iterable[int], data: Iterable[str] = DATA) -> tuple[Cell, ...]:
    """All combinations."""
    batches, data = tuple(batches), tuple(data)
    return tuple(Cell(m, d, b) for m in models for d in data for b in batches)


DEFAULT = Scope(
    cells=matrix(("gpt3-7b", "gpt3-13b"), (64, 256)),
    ablation=matrix(("gpt3-7b",), (64, 256), ("sharegpt",)),
    departures=Cell("gpt3-7b", "sharegpt", 256),
    utilisation=Cell("gpt3-30b", "sharegpt", 256),
    traced=("gpt3-7b", 16, 1024),  # PIM then has about half as much to do as the NPU, as in large batches
    both_ways=False,
)
FULL = DEFAULT._replace(
    cells=matrix(DEVICES, BATCHES), ablation=matrix(("gpt3-7b",), BATCHES, ("sharegpt",)), both_ways=True
)

# Faults that only one kind of machine has; any other is switched in all. `tests/test_neupims_report.py` checks them.
TOUCHED = {
    "gemv_frees_row": ("neupims",),
    "gemv_answers_early": ("neupims",),
    "gact_counts_little": ("pim", "neupims"),
    "gact_closes_early": ("pim", "neupims"),
    "gwrites_overlap": ("pim", "neupims"),
    "header_counts_rounded": ("pim", "neupims"),
    "gwrites_of_row_0": ("pim", "neupims"),
    "attend_not_stored": ("pim", "neupims"),
    "same_rows": ("pim", "neupims"),
    "pim_dispatched_singly": ("pim",),
    "one_queue": ("pim",),  # two sub-batches have two queues anyway
    "halves_by_number": ("neupims",),
    "narrow_window": ("npu",),
    "attention_serial": ("npu",),
    "arrays_drain": ("npu",),
}
COMPARED = ("npu", "pim", "neupims")  # what a switched fault is worth is told by the ratios of these


def there(who: str) -> bool:
    """Whether there is such a system."""
    return CONTENDERS[who].system in list_names("systems")


def touched(fault: str) -> tuple[str, ...]:
    """Who has a fault."""
    return TOUCHED.get(fault, COMPARED)


def all_points(scope: Scope) -> list[Point]:
    """Every simulation of the study once, the longest first."""
    points = [Point(who, cell) for cell in scope.cells for who in BARS]
    points += [Point(who, cell, f) for cell in scope.ablation for f in FIDELITIES for who in ("npu", *STEPS)]
    points += [Point(who, scope.departures, f) for f in FIDELITIES for who in COMPARED]
    for fidelity in FIDELITIES if scope.both_ways else FIDELITIES[:1]:
        for fault in scope.faults:
            points += [Point(who, scope.departures, fidelity, fault) for who in touched(fault)]
    points += [Point(who, scope.utilisation, one_stage=True) for who in COMPARED]
    return sorted({resolved(p): None for p in points if there(p.who)}, key=_cost, reverse=True)


def _cost(point: Point) -> int:
    return point.cell.batch * load_llm(point.cell.model).hidden_size * (4 if point.who == "neupims" else 1)


def contexts(cell: Cell, seed: int) -> np.ndarray:
    """int64[batch]: a snapshot of a batch kept alive, after the warm-up of `decoding`, as if memory had no end."""
    workload, found = load_workload(cell.data, seed=seed), list[np.ndarray]()
    anything = Shape(heads=1, kv_heads=1, head_dim=1, row=LONGEST, banks=LONGEST, lanes=1, allotted=1)
    pages = KvPages(anything, 1, 0, 2 * cell.batch, allotted=True)
    rules = Rules(cell.batch, LONGEST, "round-robin", lambda n: n, kept_alive=True, seed=seed)

    def step(tokens: np.ndarray, channel: np.ndarray) -> float:
        found.append(tokens)
        return 1.0

    decode(workload, pages, rules, step, warm_up=warm_up_of(workload), iterations=1)
    return found[0]


def machine(point: Point) -> System:
    """The system of a point, with its faults."""
    return _machine(CONTENDERS[point.who], point.fidelity, point.flip)


@cache
def _machine(who: Contender, fidelity: str, flip: str) -> System:
    system = _as_it_is(who.system)
    if system.kind != "npu_pim" or (fidelity == "physical" and not flip and not who.settings):
        return system
    faults = {f"faults.{f}": str((fidelity == "released") != (f == flip)).lower() for f in Faults.__struct_fields__}
    return load_system(who.system, faults | dict(who.settings))


@cache
def _as_it_is(system: str) -> System:
    return load_system(system)  # all faults repaired


def share(point: Point, llm: LlmSpec) -> tuple[int, int, int]:
    """Devices that share a layer, stages of the pipeline, layers."""
    tp, pp = DEVICES.get(point.cell.model, (1, 1))
    return (tp, 1, ceil_div(llm.num_hidden_layers, pp)) if point.one_stage else (tp, pp, llm.num_hidden_layers)


def serve_point(point: Point, tokens: np.ndarray) -> Served | str:
    """Run one point; a sentence where the machine cannot."""
    system, llm = machine(point), load_llm(point.cell.model)
    tp, pp, layers = share(point, llm)
    try:
        if system.kind != "npu_pim":
            return serve_gpu(system, llm, tokens, tp=tp * pp, layers=layers)  # all devices share each layer
        channel = None
        if CONTENDERS[point.who].policy == "round-robin":
            channel = round_robin(tokens.tolist(), system.of_kind(NpuPimSystem).dram.channels)
        return serve_on_devices(system, llm, tokens, channel, tp=tp, pp=pp, layers=layers, fidelity=point.fidelity)
    except UserError as error:
        return str(error)


def _work(point: Point, drawn: Mapping[Cell, np.ndarray], known: Path) -> Served | str:
    with kept_in(known):
        return serve_point(point, drawn[point.cell._replace(model="")])


def run_points(points: list[Point], seed: int, done: Callable[[], None] = lambda: None) -> dict[Point, Served | str]:
    """Run points on all cores, those that come to the same program once; those of one data set and batch have the same
    requests. Calls `done` once per point."""
    drawn: dict[Cell, np.ndarray] = {}
    for point in points:
        cell = point.cell._replace(model="")
        if cell not in drawn:
            drawn[cell] = contexts(cell, seed)
    results: dict[Point, Served | str] = {}
    with TemporaryDirectory() as known:
        for point, found in run_all(partial(_work, drawn=drawn, known=Path(known)), points):
            results[point] = found
            done()
    return results
