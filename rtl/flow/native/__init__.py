"""C++ benches: they do at Verilator's own speed what the cocotb benches of the same names do in Python."""
