"""How often branches are taken, for the compiler: counted while a kernel that was compiled once does a small job.

LLVM lays out code so that what is often done follows on, and keeps in registers what is often used; without numbers it
guesses both. Counts decide how fast a kernel is, not what it does. Of a module's text only lines of conditional
branches are read, in LLVM's own spelling.
"""

import ctypes
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numpy as np

from pimloom.cycle_sim.compiled import kernel, library
from pimloom.cycle_sim.cores import CORES

BRANCH = re.compile(r"^  br i1 (\S+), label [^,]+, label [^,]+")
OLD_WEIGHT = re.compile(r", !prof !\d+")
NUMBERED = re.compile(r"^!(\d+) = ", re.MULTILINE)
COUNTS = "counts"  # [2 * i + taken] of branch i
MOST = (1 << 31) - 1  # of a weight


def weighted(module: Any, machine: Any, name: str, kinds: tuple[str, ...], trainer: str) -> Any:
    """The optimised module of a kernel with a weight for each branch that is reached while `trainer` runs.

    machine: that emits code; trainer: `module:function`, which calls the kernel through its own module, with arguments
    of these kinds, and no other kernel of the modules that this one stands on.
    """
    text = str(module)
    if " ptr " not in text:  # LLVM before 16 has typed pointers, which are spelled otherwise
        return module
    counted, n = with_counters(text)
    engine = library.engine_of(machine.emit_object(llvm.parse_assembly(counted)))
    _train(engine.get_function_address("kernel"), name, kinds, trainer)
    place = engine.get_global_value_address(COUNTS)
    counts = np.ctypeslib.as_array((ctypes.c_int64 * (2 * n)).from_address(place))
    if not counts.any():
        raise RuntimeError(f"{trainer} does not call {name}")
    return llvm.parse_assembly(with_weights(text, counts.tolist()))


def _train(address: int, name: str, kinds: tuple[str, ...], trainer: str) -> None:
    """Run a trainer with the kernel at an address, in one thread: counters are plain numbers."""
    code = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address)
    (room, _, function), before = name.partition(":"), CORES.set(1)
    kernel.compiler = None  # kernels that are imported from here on are those that anybody calls
    setattr(import_module(room), function, kernel.known(name, kinds, library.called(code, name)))
    try:
        _named(trainer)()
    finally:
        CORES.reset(before)


def _named(trainer: str) -> Callable[[], None]:
    room, _, function = trainer.partition(":")
    found: Callable[[], None] = getattr(import_module(room), function)
    return found


def with_counters(text: str) -> tuple[str, int]:
    """A module that counts at each conditional branch, and how many of them there are."""
    lines, n = list[str](), 0
    for line in text.split("\n"):
        if found := BRANCH.match(line):
            place = f"%{COUNTS}.{n}"
            lines += [
                f"  {place}.taken = zext i1 {found[1]} to i64",
                f"  {place}.i = add i64 {place}.taken, {2 * n}",
                f"  {place}.at = getelementptr i64, ptr @{COUNTS}, i64 {place}.i",
                f"  {place}.was = load i64, ptr {place}.at",
                f"  {place}.is = add i64 {place}.was, 1",
                f"  store i64 {place}.is, ptr {place}.at",
            ]
            n += 1
        lines.append(line)
    lines.append(f"@{COUNTS} = global [{2 * n} x i64] zeroinitializer\n")
    return "\n".join(lines), n


def with_weights(text: str, counts: Sequence[int]) -> str:
    """A module whose branches that were reached have the weights that were counted."""
    lines, weights, n = list[str](), list[str](), 0
    number = max(map(int, NUMBERED.findall(text)), default=-1) + 1
    for line in text.split("\n"):
        if BRANCH.match(line):
            other, taken = counts[2 * n : 2 * n + 2]
            n += 1
            if other or taken:
                unit = max(other, taken) // MOST + 1
                line = OLD_WEIGHT.sub("", line) + f", !prof !{number + len(weights)}"
                both = f"i32 {taken // unit}, i32 {other // unit}"
                weights.append(f'!{number + len(weights)} = !{{!"branch_weights", {both}}}')
        lines.append(line)
    return "\n".join([*lines, *weights, ""])
