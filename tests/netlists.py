# amaranth: UnusedElaboratable=no
"""Verilog that tests of several files simulate, made once in a process."""

from functools import cache

from pimloom.arch.system import load_part
from pimloom.rtl.axi import SequencerAxi
from pimloom.rtl.flow.axi.host import often_refreshed
from pimloom.rtl.flow.axi.verify import SHALLOW
from pimloom.rtl.flow.axi.verify import TOP as AXI
from pimloom.rtl.flow.cosim import TOP
from pimloom.rtl.flow.stimulus import own_table, shrink
from pimloom.rtl.sequencer import Sequencer
from pimloom.rtl.verilog import to_verilog

STREAMS = 2
BANKS = (2, 2)  # bank groups, banks of a group
WAIT_BITS = 10  # of waits that are ports
FEW_BANKS = (1, 2)  # for netlists that are soon made


@cache
def sequencer(part: str) -> str:
    """Whose waits are inputs: one for all timings."""
    device = load_part(part).value
    return to_verilog(Sequencer(own_table(device, shrink(device, *BANKS)), STREAMS, WAIT_BITS), TOP)


@cache
def sequencer_axi(part: str) -> str:
    """Of few banks: what is said of them holds of more."""
    device = load_part(part).value
    return to_verilog(SequencerAxi(device, SHALLOW, often_refreshed(device, FEW_BANKS)), AXI)
