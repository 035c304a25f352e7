"""All kernels that are known, compiled ahead, as many at a time as there are cores: `python -m
pimloom.cycle_sim.compiled [FOLDER]`, into the cache, or for a wheel to that folder, with nothing from the cache."""

import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from pimloom.arch.error import UserError
from pimloom.arch.files import write_atomic
from pimloom.cycle_sim.compiled import library
from pimloom.cycle_sim.compiled.sealed import write_sealed
from pimloom.cycle_sim.cores import cores

OLD_DAYS = 90


def make_all() -> int:
    """Compile what is not there yet; returns how many."""
    longest_first = sorted(library.listed(), key=lambda row: -row[1])
    known = [(library.place(name, kinds), name, kinds) for name, _, *kinds in longest_first]
    tidy(library.kept_in(), {place for place, *_ in known}, version("numba"))
    jobs = [job for job in known if not library.is_whole(job[0])]
    with ThreadPoolExecutor(cores()) as pool:
        for future in [pool.submit(library.make, *job) for job in jobs]:
            future.result()
    return len(jobs)


def compile_into(folder: Path) -> None:
    """Compile all kernels afresh, into a folder of a wheel: nothing comes from a cache. Raises UserError if others can
    write to temporary files."""
    with TemporaryDirectory() as fresh, patch.dict(os.environ, PIMLOOM_CACHE=fresh):
        if library.kept_in().parent != Path(fresh):
            raise UserError(f"others can write to {fresh}; set TMPDIR to a private folder")
        make_all()
        for name, _, *kinds in library.listed():
            made = library.place(name, kinds)
            write_sealed(folder / made.name, library.read_code(made) or b"", b"")


def tidy(folder: Path, known: set[Path], numba: str) -> None:
    """Remove what another version of numba made, and what is not `known` and OLD_DAYS old: its source has changed."""
    folder.mkdir(parents=True, exist_ok=True)
    made_by, key, oldest = folder / "numba", folder / "key", time.time() - OLD_DAYS * 24 * 3600
    other = made_by.exists() and made_by.read_text() != numba
    for file in set(folder.iterdir()) - {made_by, key}:
        if (other and file.suffix != ".lock") or (file not in known and file.stat().st_mtime < oldest):
            if file.is_dir():  # a maker that was killed leaves one
                shutil.rmtree(file)
            else:
                file.unlink(missing_ok=True)
    write_atomic(made_by, numba, own=True)


if __name__ == "__main__":
    compile_into(Path(sys.argv[1])) if len(sys.argv) > 1 else make_all()
