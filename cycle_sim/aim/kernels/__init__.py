"""The compiled kernels of AiM: `host` runs a program, `channel` a channel of it, `queue` what waits there."""
