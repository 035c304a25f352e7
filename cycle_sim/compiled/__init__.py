"""Python functions on plain arrays as machine code: made once, ahead of time, and called without numba."""
