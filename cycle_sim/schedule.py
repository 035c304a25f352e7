"""Pipeline schedules in closed form: how long a step takes, and how many micro-batches a stage holds.

A pipeline has PP stages, each of v chunks of layers (v = 1 but for interleaved schedules), so a micro-batch goes
PP × v times from chunk to chunk, forth and back. Unit of time: both passes of one micro-batch in one stage.

Two bounds hold for any schedule. The last stage waits PP − 1 chunks for its first one, and the same way is left after
its last backward pass: m + (PP − 1) / v. The last chunk of all waits for PP × v − 1 chunks, takes m micro-batches, and
PP × v − 1 are left: PP + (m − 1) / v. Interleaved 1F1B meets the larger one if PP divides m, or m ≤ PP.
"""

from pimloom.arch.training import Schedule


def is_regular(schedule: Schedule, stages: int, micro_batches: int, chunks: int) -> bool:
    """Whether there is a closed form: interleaved micro-batches come in whole groups of `stages`, or in one."""
    if schedule == "1f1b" or stages == 1:
        return chunks == 1
    if schedule == "interleaved-ideal":
        return True
    return chunks == 1 or micro_batches <= stages or micro_batches % stages == 0


def slots(schedule: Schedule, stages: int, micro_batches: int, chunks: int = 1) -> float:
    """Time of a step in passes of a micro-batch through a stage. Raises ValueError where no closed form holds.

    >>> slots("1f1b", 4, 8), slots("interleaved", 4, 8, 2), slots("interleaved", 8, 2, 2)
    (11.0, 9.5, 8.5)
    """
    if not is_regular(schedule, stages, micro_batches, chunks):
        raise ValueError(f"{schedule}: no closed form for {micro_batches} micro-batches, {stages} stages × {chunks}")
    busy = micro_batches + (stages - 1) / chunks
    if schedule == "interleaved-ideal":
        return busy
    return max(busy, stages + (micro_batches - 1) / chunks)


def in_flight(stages: int, micro_batches: int, chunks: int = 1) -> float:
    """Micro-batches whose activations the first stage holds at most, each in all layers of a stage.

    1F1B holds min(m, PP). Interleaved, the first stage starts 2 (PP − 1) + (v − 1) PP + 1 chunks before its first
    backward pass ends.

    >>> in_flight(4, 8), in_flight(4, 2), in_flight(4, 8, 2)
    (4.0, 2.0, 5.5)
    """
    ahead = stages if chunks == 1 else stages + (stages - 1) / chunks
    return float(min(micro_batches, ahead))
