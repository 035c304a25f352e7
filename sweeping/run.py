"""Run a sweep: check it, go on where its folder stands, simulate what is missing."""

import platform
import random
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from pimloom.arch.error import UserError
from pimloom.arch.source import SET
from pimloom.arch.version import __version__
from pimloom.sweeping.checks import check_points
from pimloom.sweeping.crew.chunk import no_scheduler
from pimloom.sweeping.definition.expression import parse, parse_constraint
from pimloom.sweeping.definition.numbered import Grid
from pimloom.sweeping.definition.sweep import Scalar, Sweep
from pimloom.sweeping.filling import Counts, Filling, Points
from pimloom.sweeping.folder import check_columns, folder_of, read_source, settle
from pimloom.sweeping.point.digests import key_of
from pimloom.sweeping.point.shared import Base, base_of
from pimloom.sweeping.progress import Shown, sweep_progress
from pimloom.sweeping.search.searching import Search
from pimloom.sweeping.stopping import going_on
from pimloom.sweeping.store.runs import record_run
from pimloom.sweeping.store.sweep_rows import SweepRows

if TYPE_CHECKING:
    import pandas as pd

    from pimloom.sweeping.crew.cluster import Crew

Point = Mapping[str, Scalar]
MOST_WORKERS = 1024  # processes of one machine
_ADDRESS = re.compile(r"inproc://.+|((tcp|tls|ws|wss|ucx)://)?\[?(?P<host>[^/]+?)\]?:(?P<port>\d{1,5})(/.*)?", re.ASCII)
KNOCK_S = 5.0
PACKAGES = ("numpy", "numba", "scipy", "pandas", "pyarrow", "distributed", "optuna")

PROMPTS_LEFT_OUT = (
    "prompts are not computed: their keys and values are taken as there; workload.chunk (2048 in `pimloom run`) "
    "computes them"
)


class Options(NamedTuple):
    """How to run: a scheduler's address or None; processes here, None for one per core; most seconds of a point.

    wait_s: how long a scheduler that is lost in the middle is waited for.
    """

    scheduler: str | None = None
    workers: int | None = None
    timeout_s: float | None = None
    retry_failed: bool = False
    quiet: bool = True
    wait_s: float = 60.0


def run_sweep(source: Path | Mapping[str, Any], out: Path | None, options: Options) -> Path:
    """Simulate what the sweep's folder lacks; returns the folder. Raises UserError."""
    _check(options)
    folder = folder_of(source, out)
    sweep, text = read_source(source)
    try:
        base = base_of(sweep)
        check_points(base, sweep)
        check_columns(sweep, base)
    except UserError as error:  # what `--set` says of a place, or of a sweep that has a name alone
        why = str(error).removeprefix(f"{SET} ")
        if not isinstance(source, Mapping):
            why = f"{source}: {why.removeprefix(f'{sweep.name}: ')}"
        raise UserError(why) from None
    if options.scheduler is not None and not folder.exists():
        _knock(options.scheduler)  # so that a wrong address begins no sweep
    settle(folder, sweep, text)
    rows = SweepRows(folder, sweep, base)
    record_run(folder, facts_of(sweep, base, options) | {"inputs": inputs_of(source, base)})
    with sweep_progress(sweep.name, options.quiet) as (show, say):
        before = len(rows.finished) - retried(rows.finished, options.retry_failed)
        for said in (*rows.damaged, *(note for llm in base.models.values() for note in llm.notes)):
            say(said)
        if base.head_note:
            say(base.head_note)
        if base.leaves_prompts_out:
            say(PROMPTS_LEFT_OUT)
        search = None if sweep.method == "grid" else _search(sweep, folder)
        if search is not None and search.note:
            say(search.note)
        total = Grid(sweep).size if search is None else search.planned
        before = before if search is None else 0

        def heard(counts: Counts) -> None:
            done = before + counts.finished
            show(Shown(min(done, total), total, counts.failed, counts.finished - counts.skipped))

        with (
            going_on(folder, say) as raised,
            Filling(
                base, rows, _crew(base, rows, options), heard=heard, say=say, check=raised.check, lost_s=options.wait_s
            ) as filling,
        ):
            heard(filling.counts)
            if search is None:
                filling.fill(_grid_blocks(sweep, base, rows, options.retry_failed))
            else:
                _follow(search, base, rows, filling, options.retry_failed)
    return folder


def retried(frame: "pd.DataFrame", retry_failed: bool) -> int:
    """How many of the rows will be simulated once more."""
    return int(frame["error"].notna().sum()) if retry_failed else 0


def _check(options: Options) -> None:
    if options.timeout_s is not None and not 0 < options.timeout_s < 1e9:
        raise UserError(f"--timeout-per-point {options.timeout_s:g}: expected seconds above 0")
    if not 0 <= options.wait_s < 1e9:
        raise UserError(f"--wait {options.wait_s:g}: expected seconds from 0")
    if options.workers is not None and not 1 <= options.workers <= MOST_WORKERS:
        raise UserError(f"--workers {options.workers}: expected 1 to {MOST_WORKERS}")
    if options.scheduler is not None and not _ADDRESS.fullmatch(options.scheduler):
        said = "expected an address with its port, such as tcp://host:8786"
        raise UserError(f"--scheduler {options.scheduler}: {said}")
    if options.scheduler is not None and options.workers is not None:
        raise UserError(f"--workers {options.workers}: a scheduler has its own workers; leave one of the two out")


def _knock(address: str) -> None:
    """Raise UserError if nobody listens at a scheduler's address; of some kinds only a client can tell."""
    found = _ADDRESS.fullmatch(address)
    if not found or not found["port"] or found[2] == "ucx":
        return
    try:
        socket.create_connection((found["host"], int(found["port"])), KNOCK_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise UserError(no_scheduler(address, getattr(error, "strerror", None) or str(error))) from None


def facts_of(sweep: Sweep, base: Base, options: Options) -> dict[str, object]:
    """What is kept of a start."""
    return {
        "name": sweep.name,
        "base": msgspec.to_builtins(base),
        "method": sweep.method,
        "seed": sweep.seed,
        "version": __version__,
        "code_digest": base.code,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "host": platform.node(),
        "options": options._asdict(),
    }


def inputs_of(source: Path | Mapping[str, Any], base: Base) -> list[str]:
    """Absolute paths of the files that a sweep was read from, so that no export takes the place of one."""
    named = [
        path
        for each in base.each
        for path in (each.system.path, *(part.path for part in each.parts.values()), *each.models, *each.requests)
    ]
    paths = [Path(name) for name in ([] if isinstance(source, Mapping) else [source]) + named]
    files = {path / "config.json" if path.is_dir() else path for path in paths}
    return sorted(str(path.resolve()) for path in files if path.is_file())


def _crew(base: Base, rows: SweepRows, options: Options) -> "Callable[[], Crew]":
    """What starts the crew."""

    def start() -> "Crew":
        from pimloom.sweeping.crew.cluster import Crew

        workers = options.workers or cpu_count() or 1
        crew = Crew(msgspec.json.encode(base), rows.steps(), options.scheduler, workers, options.timeout_s)
        return crew.__enter__()

    return start


def _grid_blocks(sweep: Sweep, base: Base, rows: SweepRows, retry_failed: bool) -> Iterator[Points]:
    """The points of a grid that have no row, block by block."""
    grid = Grid(sweep)
    done = np.zeros(grid.size, bool)
    done[rows.numbers(grid, failed=not retry_failed)] = True
    for numbers in grid.blocks(done, rows.lot):
        yield {key_of(base, point): point for point in map(grid.point, numbers.tolist())}


def _search(sweep: Sweep, folder: Path) -> Search:
    column_of = sweep.column_of
    objectives = [parse(text, "objectives") for text in sweep.objectives]
    constraints = [parse_constraint(text, "constraints") for text in sweep.constraints]
    return Search(
        sweep,
        folder,
        [lambda row, e=expression: e.value(row, column_of) for expression in objectives],  # type: ignore[misc]
        [lambda row, c=constraint: c.violation(row, column_of) for constraint in constraints],  # type: ignore[misc]
    )


def _follow(search: Search, base: Base, rows: SweepRows, filling: Filling, retry_failed: bool) -> None:
    """Simulate batch by batch what the search asks for."""
    chance = random.Random(rows.lot)
    while (asked := search.ask()) is not None:
        keys = [key_of(base, point) for point in asked]
        points = dict(zip(keys, asked, strict=True))
        known = rows.known(points, failed=not retry_failed)
        filling.skip(len(keys) - len(points) + len(known))
        lacking = [key for key in points if key not in known]
        chance.shuffle(lacking)  # several that fill one sweep seldom do the same
        filling.fill([{key: points[key] for key in lacking}])
        known = rows.known(points, failed=True)
        search.tell([known[key] | base.cells(points[key]) for key in keys])
