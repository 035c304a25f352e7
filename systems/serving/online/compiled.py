"""The compiled clock over interpolated prices: a record as Python's own makes it, to the last bit."""

from array import array
from collections.abc import Sequence
from itertools import islice

import numpy as np

from pimloom.cycle_sim.compiled.kernel import PLAIN
from pimloom.systems.serving.clock.compiled import Board, CompiledReplica
from pimloom.systems.serving.clock.names import fits
from pimloom.systems.serving.clock.rules import limits_of
from pimloom.systems.serving.kernels import fields as f
from pimloom.systems.serving.kernels import price as k
from pimloom.systems.serving.pricing.costs import JOULES, Cost, pieces_of
from pimloom.systems.serving.pricing.fitted import Fitted
from pimloom.systems.serving.pricing.grid import FEW, Grid
from pimloom.systems.serving.pricing.interpolated import Interpolated
from pimloom.systems.serving.pricing.points import MOST
from pimloom.systems.serving.pricing.sampling import KINDS, MIXED, Stratum, kind_of
from pimloom.systems.serving.results.record import Record
from pimloom.systems.serving.schedulers.blocks import Blocks
from pimloom.systems.serving.schedulers.live import NEVER, Iteration, LiveRequest, Scheduler

FULL = 0.5  # of a table with open addresses, at most


class Asking:
    """Prices that Python computes for each iteration of the compiled clock."""

    def __init__(self, record: Record, costs: Interpolated) -> None:
        self.record, self.costs = record, costs
        none, room = np.zeros(0, np.int64), (np.zeros(1), np.zeros(1))
        grid, axes = np.zeros(k.N_GRID, np.int64), np.zeros((4, 1), np.int64)
        self.prices = k.Prices(none, grid, axes, *_tables(1, 1), np.zeros(1), *room, np.ones(len(KINDS)))

    def unknown(self, made: Iteration) -> None:
        """Compute the price of an iteration for the kernel."""
        self._tell(self.costs.of(pieces_of(made)))

    def keep(self, made: Iteration, kind: int, seen: int) -> int:
        """Add an iteration to the sample of its kind; return the number of the next one. seen: iterations so far."""
        stratum = self.strata[kind]
        stratum.seen = seen
        stratum.keep(pieces_of(made))
        return stratum.following

    @property
    def strata(self) -> list[Stratum]:
        """The sample of each kind, in the order of the kernels."""
        assert self.record.sample is not None
        return [self.record.sample.strata[kind] for kind in KINDS[: f.N_KINDS]]

    def _tell(self, cost: Cost) -> None:
        self._widen(len(cost), 0)
        self.prices.cost[:] = 0.0
        self.prices.cost[: len(cost)] = cost

    def _widen(self, width: int, more: int) -> None:
        """Make room for `more` points, and for costs of `width` numbers."""
        keys, costs = self.prices.keys, self.prices.costs
        used, size, old = int((keys[:, 0] != k.EMPTY).sum()) + more, len(keys), costs.shape[1]
        while used > FULL * size:
            size *= 2
        if size == len(keys) and width <= old:
            return
        wide = max(width, old)
        new_keys, new_costs = _tables(size, wide)
        for key, cost in zip(keys, costs, strict=True):
            if key[0] != k.EMPTY:
                at = _place(new_keys, *map(int, key))
                new_keys[at], new_costs[at, :old] = key, cost
        self.prices = self.prices._replace(keys=new_keys, costs=new_costs, cost=np.zeros(wide), part=np.zeros(wide))


class Reading(Asking):
    """A grid's sample points as `Prices`. Python has the price where points around it are not simulated yet, or cannot
    be, and of kinds that are not interpolated alone. requests: most of an iteration."""

    def __init__(self, record: Record, costs: Interpolated, grid: Grid, requests: int) -> None:
        super().__init__(record, costs)
        self.grid, self.known = grid, [0, 0, 0, 0]
        plain = [costs.phases[kind].plain for kind in KINDS]
        self.whole = not grid.by_token and plain[1] and plain[2]
        limits = np.zeros(k.N_GRID, np.int64)
        limits[[k.PRICES, k.WITH_PROMPTS, k.MOST_REQUESTS]] = plain[0], self._with_prompts, grid.most or MOST
        limits[[k.ROOM, k.POSITIONS, k.BUDGET, k.LONGEST]] = grid.tokens, grid.positions, grid.budget, grid.longest
        limits[k.SIDE] = FEW if grid.shared else 0
        table = np.zeros((len(grid.axes), max(map(len, grid.axes))), np.int64)
        for axis, rising in zip((k.REQUESTS, k.CONTEXTS, k.ROWS, k.ATTENDED), grid.axes, strict=True):
            table[axis, : len(rising)], limits[k.KNOTS + axis] = rising, len(rising)
        tops = np.array([0.0, *(grid.top(b) for b in range(1, requests + 1))])
        scale = np.array([costs.phases[kind].scale for kind in KINDS])
        keys, points = _tables(64, 1)
        self.prices = self.prices._replace(grid=limits, knots=table, keys=keys, costs=points, tops=tops, scale=scale)
        self._learn()

    @property
    def _with_prompts(self) -> bool:
        """Not before Python has seen that the device runs prompts beside decode."""
        return self.whole and self.costs.phases[MIXED].met

    def unknown(self, made: Iteration) -> None:
        """Compute the price of an iteration for the kernel."""
        pieces = pieces_of(made)
        if self.costs.phases[kind_of(pieces)].plain:
            self.grid.know(pieces)
        cost = self.costs.of(pieces)
        self.prices.grid[k.WITH_PROMPTS] = self._with_prompts
        self._learn(len(cost))
        self._tell(cost)

    def _learn(self, width: int = JOULES) -> None:
        """Sample points that the grid has come to know."""
        grid, more = self.grid, list[tuple[int, int, int, list[float]]]()
        for (n, mean), cost in islice(grid.corners.items(), self.known[0], None):
            more.append((k.DECODE, n, mean, cost))
        for (n, attended, ends), cost in islice(grid.prompts.items(), self.known[1], None):
            more.append((k.ENDING if ends else k.PROMPT, n, attended, cost))
        for context, cost in islice(grid.apart.items(), self.known[2], None):
            more.append((k.PAIR, context, 0, cost))
        if grid.of_second is not None and not self.known[3]:
            more.append((k.TURNS, 0, 0, [grid.of_second]))
        self.known = [len(grid.corners), len(grid.prompts), len(grid.apart), grid.of_second is not None]
        self._widen(max([width, *(len(cost) for *_, cost in more)]), len(more))
        for *key, cost in more:
            at = _place(self.prices.keys, *key)
            self.prices.keys[at] = key
            self.prices.costs[at, : len(cost)] = cost


def _place(keys: np.ndarray, kind: int, n: int, context: int) -> int:
    with np.errstate(over="ignore"):
        return int(k.place(keys, kind, n, context))


def _tables(size: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((size, 3), k.EMPTY, np.int64), np.zeros((size, width))


def replicas_of(
    live: Sequence[LiveRequest], schedulers: Sequence[Scheduler], record: Record, stages: int
) -> list[CompiledReplica] | None:
    """Replicas that kernels run; None where they do not know a scheduler's rule, a request's decoding, or the costs."""
    limits = [one for scheduler in schedulers if (one := limits_of(scheduler)) is not None]
    costs = record.costs
    if PLAIN or type(record) is not Record or not isinstance(costs, Interpolated) or len(limits) < len(schedulers):
        return None
    if costs.whole or type(costs.prices) not in (Grid, Fitted):
        return None
    if (
        not live
        or not fits(live, schedulers)
        or any(request.decoding is not None or request.beside for request in live)
    ):
        return None
    most = min(max(int(one[f.CAP]) for one in limits), len(live))
    grid, first = costs.prices, [NEVER] * f.N_KINDS
    reading = Reading(record, costs, grid, most) if isinstance(grid, Grid) else Asking(record, costs)
    if record.sample is not None:
        first = [stratum.following for stratum in reading.strata]
    board = Board(live, reading, len(record.by_request), first)
    return [CompiledReplica(scheduler, limits[i], board, i, stages) for i, scheduler in enumerate(schedulers)]


def tell(replicas: Sequence[CompiledReplica], record: Record) -> None:
    """Requests, schedulers and the record are as Python's own clock would leave them."""
    board = replicas[0].board
    board.tell()
    for replica in replicas:
        replica.tell()
    n, shared = int(board.shared.counts[f.N_ROWS]), board.shared
    places = {
        "start": f.STARTED, "ticks": f.TOOK, "end": f.ENDS, "replica": f.ON, "requests": f.MANY, "new": f.TOKENS,
        "contexts": f.CONTEXTS, "waiting": f.LEFT_WAITING, "used": f.HELD,
        "again": f.ONCE_MORE,
    }  # fmt: skip
    for name, column in places.items():
        into = getattr(record, name)
        into.frombytes(shared.rows[:n, column].astype(f"i{into.itemsize}").tobytes())
    pool = replicas[0].scheduler.blocks
    if isinstance(pool, Blocks) and pool.window:
        record.used = array(record.used.typecode, map(pool.blocks_of, record.used))
    record.joules.frombytes(shared.joules[:n].tobytes())
    sums = shared.by_cause.tolist()
    record.by_request, record.work, record.by_cause = shared.by_request.tolist(), sums[: JOULES - 1], sums[JOULES - 1 :]
    if record.sample is not None and isinstance(board.pricing, Asking):
        for i, stratum in enumerate(board.pricing.strata):
            stratum.seen, stratum.time_ps = int(shared.counts[f.SHOWN + i]), float(shared.time_ps[i])
