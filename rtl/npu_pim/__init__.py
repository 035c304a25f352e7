"""A channel of an NPU with PIM in gates: its controller, banks with two row buffers, PIM units."""
