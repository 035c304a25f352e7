"""Arrays that go into a simulator's process and come back; benches import this, and nothing else of the flow."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

FOLDER = "PIMLOOM_BENCH"  # environment variable: the folder of the run


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name into one file of numpy (.npz)."""
    np.savez(path, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read arrays by name; never objects."""
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def given() -> dict[str, np.ndarray]:
    """What the caller of `simulate` passes to the bench."""
    return read_arrays(Path(os.environ[FOLDER]) / "given.npz")


def leave(**arrays: np.ndarray) -> None:
    """What the bench returns to the caller of `simulate`; once per run."""
    write_arrays(Path(os.environ[FOLDER]) / "left.npz", arrays)
