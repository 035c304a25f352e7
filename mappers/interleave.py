"""Which sub-batch the NPU works on, and which PIM, stage by stage.

Without sub-batches (n = 1) and with two as in NeuPIMs (casys-kaist/NeuPIMs@f299af3, StageProgram.cc, restated). More of
them take turns in the same way: PIM goes round the sub-batches, and while it computes the attention of one, the NPU
takes the one before through projection and FFN and on to the QKV of the next layer. A stage is a barrier.

    n   stages                    NPU                                     PIM          runs
    1   A                         QKV(1)                                               in each layer
        B                                                                 MHA(1)       in each layer
        E                         projection, FFN(1)                                   in each layer
    >1  A                         QKV(1)                                               once
        B                         QKV(2 to n), one GEMM                   MHA(1)       once
        C and D; C1 to Cn         projection, FFN(i); QKV(i)              MHA(i + 1)   between two layers
        E; E1 to E(n - 1)         projection, FFN(i)                      MHA(i + 1)   once
        F                         projection, FFN(n)                                   once

After sub-batch n comes 1, of the next layer. For n > 2 stages C and E bear the number of the NPU's sub-batch.
"""

from collections.abc import Collection
from typing import Literal, NamedTuple


class Stage(NamedTuple):
    """What NPU and PIM do until both have ended; sub-batches count from 0.

    through: the sub-batch that the NPU takes through projection and FFN; qkv: those whose QKV it computes then, in one
    GEMM; attention: the sub-batch of PIM; runs: how often.
    """

    name: str
    through: int | None
    qkv: tuple[int, ...]
    attention: int | None
    runs: Literal["once", "layer", "between"] = "once"

    def times(self, layers: int) -> int:
        """How often the stage runs in an iteration of `layers` layers; "between" two of them, once less."""
        return {"once": 1, "layer": layers, "between": layers - 1}[self.runs]


def stages(sub_batches: int) -> tuple[Stage, ...]:
    """All stages for `sub_batches` >= 1, those that repeat once."""
    n = sub_batches
    if n == 1:
        return (
            Stage("A", None, (0,), None, "layer"),
            Stage("B", None, (), 0, "layer"),
            Stage("E", 0, (), None, "layer"),
        )
    steady = ("C", "D") if n == 2 else tuple(f"C{i + 1}" for i in range(n))
    ending = ("E",) if n == 2 else tuple(f"E{i + 1}" for i in range(n - 1))
    return (
        Stage("A", None, (0,), None),
        Stage("B", None, tuple(range(1, n)), 0),
        *(Stage(name, i, (i,), (i + 1) % n, "between") for i, name in enumerate(steady)),
        *(Stage(name, i, (), i + 1) for i, name in enumerate(ending)),
        Stage("F", n - 1, (), None),
    )


def stages_of(names: Collection[str]) -> tuple[Stage, ...]:
    """All stages, told from their names."""
    return stages(1 if len(names) == len(stages(1)) else len(names) // 2 - 1)


def all_layers(sub_batches: int, layers: int) -> tuple[Stage, ...]:
    """The stages of `layers` layers in order, each with a name of its own: what runs when none stands for another."""
    once = stages(sub_batches)
    repeated = [stage for stage in once if stage.runs != "once"]
    first = once.index(repeated[0])
    found = [*once[:first], *repeated * repeated[0].times(layers), *once[first + len(repeated) :]]
    return tuple(stage._replace(name=f"{stage.name}@{i}", runs="once") for i, stage in enumerate(found))
