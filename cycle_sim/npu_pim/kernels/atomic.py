"""Numbers that several threads change; arrays of one dimension."""

from typing import Any

from pimloom.cycle_sim.compiled import kernel


def add(numbers: Any, i: Any, by: Any) -> Any:
    """Add to numbers[i]; returns what it was."""
    was = numbers[i]
    numbers[i] += by
    return was


def swap(numbers: Any, i: Any, new: Any) -> Any:
    """Write numbers[i]; returns what it was."""
    was, numbers[i] = numbers[i], new
    return was


if kernel.compiler:
    from pimloom.cycle_sim.compiled import instructions

    add, swap = instructions.add, instructions.swap
