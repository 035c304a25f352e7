"""The compiled kernels of AiM: `host` runs a program, `channel` a channel of it, on the arrays of `state`."""
