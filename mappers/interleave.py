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

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
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

    def behind(self, work: Literal["through", "qkv", "attention"]) -> bool:
        """Whether this is work of the later one of the two layers of a turn."""
        if self.runs == "between":
            return work == "qkv" or (work == "attention" and self.attention == 0)
        return self.runs == "once" and self.through is not None


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


class Turn(NamedTuple):
    """A stage of an iteration between two layers, or in one."""

    here: int
    then: int
    stage: Stage


def turns(sub_batches: int, layers: Sequence[int]) -> Iterator[Turn]:
    """The stages of all `layers` (numbers, at least one) in order."""
    once = stages(sub_batches)
    if sub_batches == 1:
        yield from (Turn(layer, layer, stage) for layer in layers for stage in once)
        return
    pairs = list(pairwise(layers)) or [(layers[0], layers[0])]
    yield from (Turn(*pairs[0], stage) for stage in once if stage.runs == "once" and stage.through is None)
    steady = [stage for stage in once if stage.runs == "between"]
    yield from (Turn(*pair, stage) for pair in pairs[: len(layers) - 1] for stage in steady)
    yield from (Turn(*pairs[-1], stage) for stage in once if stage.runs == "once" and stage.through is not None)
