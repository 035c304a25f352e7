"""Parts of a layer on AttAcc, in the order in which they run."""

ORDER = (
    "norm 1", "qkv", "transfer", "score", "softmax", "context", "projection", "all-reduce 1", "norm 2", "router", "up",
    "gate", "activation", "down", "all-reduce 2",
)  # fmt: skip
