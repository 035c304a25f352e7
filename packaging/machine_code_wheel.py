"""setuptools, and wheels that carry the kernels' machine code (see cycle_sim/compiled): a wheel is for a platform, and
for any Python. What it takes to compile is asked for where a wheel is built, not where a checkout is installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).parent.parent
COMPILER = ["numba>=0.61,<0.70", "numpy>=2", "msgspec", "pyyaml"]
MADE = Path("cycle_sim", "compiled", "made")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What setuptools needs, and the compiler."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *COMPILER]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """A wheel for this platform; PIMLOOM_PLATFORM names it otherwise, as for manylinux."""
    platform = os.environ.get("PIMLOOM_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(".", "_")
    options = {**(config_settings or {}), "--build-option": [f"--plat-name={platform}"]}
    into, metadata = os.path.abspath(wheel_directory), metadata_directory and os.path.abspath(metadata_directory)
    with _own_copy() as copy, chdir(copy):  # setuptools writes where it stands; another build may be under way here
        _add_machine_code(copy)
        return build_meta.build_wheel(into, options, metadata)


@contextmanager
def _own_copy() -> Iterator[Path]:
    """What a wheel is made from: the files at the top of the checkout and the rooms."""
    rooms = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"].values()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "checkout")
        copy.mkdir()
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy(path, copy)
        for room in rooms:
            shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__", MADE.name))
        yield copy


def _add_machine_code(copy: Path) -> None:
    """Compile the kernels afresh, whatever a cache has, and lay their machine code beside the sources of this copy."""
    (copy / MADE).mkdir()
    with tempfile.TemporaryDirectory() as folder:  # the rooms as the package that they are
        package = Path(folder, "pimloom")
        package.mkdir()
        for path in [*copy.iterdir(), *(copy / "pimloom").iterdir()]:
            if path.name != "pimloom" and (path.is_dir() or path.suffix == ".py"):
                (package / path.name).symlink_to(path)
        command = [sys.executable, "-m", "pimloom.cycle_sim.compiled", str(copy / MADE)]
        paths = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])  # pip's own is there, too
        plain = {key: value for key, value in os.environ.items() if not key.startswith("PIMLOOM_")}
        subprocess.run(command, cwd=folder, env=plain | {"PYTHONPATH": paths}, check=True)
