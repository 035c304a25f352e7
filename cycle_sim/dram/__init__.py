"""DRAM: one device, and what drives it: streams in order, and the kernels of memory controllers."""
