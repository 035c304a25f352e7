"""All kernels that are known, compiled ahead, as many at a time as there are cores: `python -m
pimloom.cycle_sim.compiled [FOLDER]`, into the cache, and to that folder."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pimloom.cycle_sim.compiled import library
from pimloom.cycle_sim.cores import cores


def make_all(folder: Path | None = None) -> int:
    """Compile what is not there yet; returns how many. folder: takes all of it, too."""
    longest_first = sorted(library.listed(), key=lambda row: -row[1])
    known = [(library.place(name, kinds), name, kinds) for name, _, *kinds in longest_first]
    jobs = [job for job in known if not job[0].exists()]
    with ThreadPoolExecutor(cores()) as pool:
        for future in [pool.submit(library.make, *job) for job in jobs]:
            future.result()
    if folder:
        for place, *_ in known:
            shutil.copy(place, folder)
    return len(jobs)


if __name__ == "__main__":
    make_all(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
