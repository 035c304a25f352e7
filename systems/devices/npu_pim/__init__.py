"""Batched decoding on NPU and PIM: one layer as a program, iterations, results."""
