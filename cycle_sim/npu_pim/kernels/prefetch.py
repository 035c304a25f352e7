"""Memory that is needed soon."""

from typing import Any

from pimloom.cycle_sim.compiled import kernel


def prefetch(rows: Any, i: Any) -> None:
    """Ask for row i of a table in C order before it is needed; changes nothing."""


if kernel.compiler:
    from pimloom.cycle_sim.compiled import instructions

    prefetch = instructions.prefetch  # type: ignore[assignment]
