"""Verilog of Yosys, rewritten as an engineer would write it: names, registers, expressions.

`tidy` reads the text that Yosys writes (`write_verilog`) and returns shorter Verilog of the same logic. A register is
one process with its conditions, not a wire for its next value and a process beside it. An expression that is read once
stands where it is read. A wire without a name gets that of the line of source that made it, of the port that it
drives, or of the memory that it reads. Logic, registers and their values at power-up stay equal.

It reads these attributes of the text: `src`, a line of Python (`file.py:line`) for names; `enum_base_type` and
`enum_value_N` for the names of a wire's values; `bits` (`BITS`) for the names of a wire's bits, the lowest first, with
spaces between them. The last two become local parameters.

`share` makes equal modules of an RTLIL netlist one, before Yosys reads it. `plain` is a name as Verilog accepts it.
The package imports nothing but Python's own library.
"""

from verilog_tidy.constants import BITS
from verilog_tidy.design import tidy
from verilog_tidy.names import plain
from verilog_tidy.read import Unreadable
from verilog_tidy.share import share

__all__ = ["BITS", "Unreadable", "plain", "share", "tidy"]
