"""Verilog that reads: what a netlist's text needs before an engineer takes it, each step equal to the one before."""
