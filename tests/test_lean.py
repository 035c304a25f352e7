"""Modules that a command's imports put off: all is there when it is asked for, whoever asks."""

import subprocess
import sys

LATE = """
import sys
from pimloom.lean import HELP, LATER, put_off
for name in LATER:
    sys.modules.pop(name, None)
put_off()

def late(name):
    return type(sys.modules[name]).__name__ == "_Late"
"""


def ran(text: str) -> str:
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", LATE + text], capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout


def test_numpy_computes_as_ever_and_has_its_kinds_when_they_are_asked_for():
    text = """
import numpy as np
print(late("numpy.linalg"), late("pickle"), np.ndarray.fill.__doc__)
print(np.matrix([[2, 0], [0, 2]]) ** 3, np.roots([1, -3, 2]), late("numpy.linalg"), late("numpy._typing"))
print(np.linalg.eigh(np.diag([2.0, 1.0])).eigenvalues, np.arange(4).reshape(2, 2).sum(0))
print(np.emath.sqrt(-1), np.lib.format.magic(1, 0), np.lib.NumpyVersion("2.0.0") >= "1.0.0")
import numpy.typing as npt
print(npt.NDArray[np.float64], late("numpy._typing"), sys.modules["numpy._typing"].NDArray is npt.NDArray)
"""
    assert ran(text).splitlines() == [
        "True True None",
        "[[8 0]",
        " [0 8]] [2. 1.] False True",
        "[1. 2.] [2 4]",
        "1j b'\\x93NUMPY\\x01\\x00' True",
        "numpy.ndarray[tuple[typing.Any, ...], numpy.dtype[numpy.float64]] False True",
    ]


def test_a_late_module_becomes_what_it_is():
    text = """
import pickle, subprocess, tokenize
print([late(name) for name in ("pickle", "subprocess", "tokenize")])
print(pickle.loads(pickle.dumps({"a": [1, None]})), subprocess.run(["true"]).returncode, hasattr(tokenize, "nothing"))
try:
    tokenize.nothing
except AttributeError as error:
    print(error)
print([late(name) for name in ("pickle", "subprocess", "tokenize")])
print(pickle.__spec__.loader is pickle.__loader__, type(pickle.__loader__).__name__, pickle.__file__[-9:])
print(sys.modules["pickle"] is pickle is __import__("pickle"))
"""
    assert ran(text).splitlines() == [
        "[True, True, True]",
        "{'a': [1, None]} 0 False",
        "module 'tokenize' has no attribute 'nothing'",
        "[False, False, False]",
        "True SourceFileLoader pickle.py",
        "True",
    ]


def test_a_module_that_cannot_be_made_is_not_there():
    text = """
import pimloom.lean
pimloom.lean.NEEDED = {"bz2": "_no_such_module"}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "_bz2":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
sys.modules.pop("_bz2", None)
try:
    import bz2
except ImportError as error:
    print(error)
"""
    assert ran(text) == "_bz2\n"


def test_threads_that_ask_at_once_get_all_of_it():
    text = """
import threading
import subprocess
start, found = threading.Barrier(8), []

def ask():
    start.wait()
    found.append(subprocess.TimeoutExpired)

threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found), len(set(found)))
"""
    assert ran(text) == "8 1\n"


def test_what_stands_in_the_place_of_functions_does_what_they_do():
    text = """
import difflib, gettext, platform, typing, typing_extensions
from difflib import get_close_matches
from gettext import gettext as _
from platform import system
from typing_extensions import NotRequired
print([late(name) for name in ("difflib", "gettext", "platform", "typing_extensions")])
print(get_close_matches("trce", ["trace", "run"]), difflib.get_close_matches is get_close_matches)
print(_("Usage:") == gettext.gettext("Usage:"))
print(typing_extensions.Annotated is typing.Annotated, NotRequired is typing_extensions.NotRequired)
print(system() == platform.system(), platform.machine() != "", system() == platform.system())
print([late(name) for name in ("difflib", "gettext", "platform", "typing_extensions")])
"""
    assert ran(text).splitlines() == [
        "[True, True, True, True]",
        "['trace'] False",
        "True",
        "True True",
        "True True True",
        "[False, False, False, False]",
    ]


SLOW = """
import builtins, time
def first():
    return second()
time.sleep(0.1)
if builtins.fails:
    raise KeyboardInterrupt
def second():
    return 2
"""


def test_nobody_sees_a_module_half_made(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    text = f"""
import builtins, pimloom.lean, threading, time
builtins.fails = False
pimloom.lean.LATER = {{**LATER, "slow": {{}}}}
sys.path.insert(0, {str(tmp_path)!r})
import slow
print(late("slow"))
other = threading.Thread(target=lambda: slow.second)
other.start()
time.sleep(0.03)
print(slow.first(), late("slow"))
"""
    assert ran(text) == "True\n2 False\n"


def test_a_module_that_was_interrupted_is_made_when_it_is_asked_for_again(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    text = f"""
import builtins, pimloom.lean
builtins.fails = True
pimloom.lean.LATER = {{**LATER, "slow": {{}}}}
sys.path.insert(0, {str(tmp_path)!r})
import slow
try:
    slow.first
except KeyboardInterrupt:
    builtins.fails = False
print(slow.first(), late("slow"))
"""
    assert ran(text) == "2 False\n"


def test_libraries_that_build_upon_numpy_s_texts_load():
    text = """
import matplotlib.pyplot, numba, pandas, scipy.optimize
import numpy.ma, numpy.random, numpy.polynomial
print(pandas.DataFrame({"a": [1, 2]}).a.sum())
"""
    assert ran(text) == "3\n"
