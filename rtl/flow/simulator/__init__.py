"""Verilog under a cocotb bench: built once per content, run in a folder of its own."""
