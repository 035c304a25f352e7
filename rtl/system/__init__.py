"""A small machine in gates: an NPU and PIM channels around one scratchpad, stage by stage."""
