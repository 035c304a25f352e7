"""Schedulers and the clock of a replica as kernels: the same rules as `schedulers` and `clock`, over arrays."""
