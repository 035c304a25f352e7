"""The states that changes of nodes lead through, node by node."""

import numpy as np

from pimloom.mappers.fabric.changes import Changes


def states_of(changes: Changes) -> np.ndarray:
    """Which nodes are faulty, bool (states, nodes)."""
    steps = np.zeros((changes.states, changes.nodes), np.int64)
    np.add.at(steps, (changes.state, changes.node), changes.by)
    faulty = np.cumsum(steps, axis=0)
    assert ((faulty == 0) | (faulty == 1)).all()
    return faulty == 1
