"""Pipeline schedules played operation by operation, from their description, and a ring of GPUs link by link."""

from itertools import product
from typing import NamedTuple


class Operation(NamedTuple):
    """The forward or the backward pass of a micro-batch through a chunk of a stage."""

    forward: bool
    micro_batch: int
    chunk: int


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> list[Operation]:
    """A stage starts as many micro-batches as there are stages after it, then takes turns, then drains."""
    forwards = [Operation(True, i, 0) for i in range(micro_batches)]
    backwards = [Operation(False, i, 0) for i in range(micro_batches)]
    return take_turns(forwards, backwards, min(stages - stage - 1, micro_batches))


def interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> list[Operation]:
    """Micro-batches go through all chunks in groups, one for each stage; with one group there are no turns."""
    group = min(stages, micro_batches)
    assert micro_batches % group == 0
    groups = range(0, micro_batches, group)
    forwards = [Operation(True, g + i, c) for g, c, i in product(groups, range(chunks), range(group))]
    backwards = [Operation(False, g + i, c) for g, c, i in product(groups, reversed(range(chunks)), range(group))]
    ahead = 2 * (stages - stage - 1) + (chunks - 1) * stages
    return take_turns(forwards, backwards, len(forwards) if group == micro_batches else min(ahead, len(forwards)))


def take_turns(forwards: list[Operation], backwards: list[Operation], ahead: int) -> list[Operation]:
    order = forwards[:ahead]
    for forward, backward in zip(forwards[ahead:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[len(forwards) - ahead :]


def most_held(order: list[Operation]) -> int:
    """Most chunks of micro-batches whose activations wait for their backward pass."""
    held = most = 0
    for operation in order:
        held += 1 if operation.forward else -1
        most = max(most, held)
    assert held == 0
    return most


def play(orders: list[list[Operation]], chunks: int, forward: int, backward: int, send: int, blocks: bool) -> int:
    """When the last stage has finished.

    Each pass of a chunk takes `forward` or `backward`, and `send` until it is where the next one needs it. If sending
    `blocks`, the stage is busy with it, even where nothing follows: all stages do the same.
    """
    stages = len(orders)
    done: dict[tuple[bool, int, int], int] = {}
    free, next_ = [0] * stages, [0] * stages
    while any(next_[s] < len(orders[s]) for s in range(stages)):
        before = list(next_)
        for s in range(stages):
            if next_[s] == len(orders[s]):
                continue
            operation = orders[s][next_[s]]
            place = operation.chunk * stages + s
            needs = []
            if operation.forward and place:
                needs.append((True, operation.micro_batch, place - 1))
            if not operation.forward:
                needs.append((True, operation.micro_batch, place))
                if place < stages * chunks - 1:
                    needs.append((False, operation.micro_batch, place + 1))
            if all(need in done for need in needs):
                # What is sent away delays the receiver; a stage's own forward pass is there at once.
                there = [done[need] + (0 if blocks or need[2] == place else send) for need in needs]
                end = max([free[s], *there]) + (forward if operation.forward else backward) + (send if blocks else 0)
                done[operation.forward, operation.micro_batch, place] = free[s] = end
                next_[s] += 1
        assert next_ != before, "the schedule waits for ever"
    return max(free)


def busiest_link(tp: int, ep: int, sent: float) -> float:
    """Bytes over the busiest directed link of a ring of tp × ep GPUs in an all-to-all.

    Groups of `tp` lie one after the other. Each GPU sends `sent` bytes in even parts to the GPUs of its place in the
    other groups, the shorter way round; half of them each way where both are as long.
    """
    n, part = tp * ep, sent / (ep - 1)
    right, left = [0.0] * n, [0.0] * n
    for gpu, far in product(range(n), range(1, ep)):
        ways = []
        if 2 * far <= ep:
            ways.append((right, 1, far * tp))
        if 2 * far >= ep:
            ways.append((left, -1, (ep - far) * tp))
        for links, step, length in ways:
            for hop in range(length):
                links[(gpu + step * hop) % n] += part / len(ways)
    return max(right + left)
