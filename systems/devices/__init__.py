"""Devices that answer what a step of a model takes: PIM-GPT, NPU and PIM, rooflines."""
