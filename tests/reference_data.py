"""Where the ground truth lies, and which cases it holds: `PIMLOOM_DATA` if it is set, else `../shared/data`.

No test names the cases: each folder of a set is one, so other cases of the same layout are judged as ours are. Every
test that sees them bears the marker `reference` (`pytest -m reference`); what is missing is skipped, and says where.
"""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

VARIABLE = "PIMLOOM_DATA"
BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def data_folder() -> Path:
    """Whether it exists or not."""
    said = os.environ.get(VARIABLE)
    return Path(said).expanduser().absolute() if said else BESIDE


def missing(place: str) -> str | None:
    """Why nothing can be compared with `place`, a file or a folder of the data; None if it is there."""
    path = data_folder() / place
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        return None
    return f"no {place} in {data_folder()}; {VARIABLE} names the folder of the reference data"


def needed(place: str) -> Path:
    """The file or folder; without it the test is skipped."""
    if why := missing(place):
        pytest.skip(why)
    return data_folder() / place


def ours_alone() -> None:
    """Skip what says how much of a model our own cases reach: of others nobody knows."""
    if data_folder().resolve() != BESIDE.resolve():
        pytest.skip(f"what the cases reach is known of {BESIDE} only, and {VARIABLE} names others")
    needed(".")


def folders(place: str) -> list[Path]:
    """The cases of a set, by name; none if there is no such set."""
    path = data_folder() / place
    return sorted(case for case in path.iterdir() if case.is_dir()) if path.is_dir() else []


def read_yaml(path: Path) -> Any:
    """With libyaml where it is there, which takes a tenth of the time."""
    return yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def lines(path: Path) -> list[str]:
    """Of a file that may be compressed, without comments."""
    packed = path.with_name(path.name + ".gz")
    text = path.read_text() if path.is_file() else gzip.decompress(packed.read_bytes()).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def reference_cases(place: str, slow: Callable[[Path], bool] = lambda case: False) -> list[Any]:
    """What `pytest.mark.parametrize` takes: the folder of each case, or one skipped case that says what is missing."""
    found = [
        pytest.param(case, id=case.name, marks=[pytest.mark.reference, *[pytest.mark.slow] * slow(case)])
        for case in folders(place)
    ]
    skipped = pytest.mark.skip(reason=missing(place) or f"no case in {data_folder() / place}")
    return found or [pytest.param(None, id="missing", marks=[pytest.mark.reference, skipped])]
