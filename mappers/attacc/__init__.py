"""Attention of decode steps on AttAcc's stacks: where heads lie, how many commands they take, and in which order."""
