"""The handshakes of AXI4-Lite (ARM IHI 0022) as SystemVerilog assertions beside a subordinate, told from its ports.

Of the host: what it offers stays as it is until it is taken. Of the block: a response stands as it is until it is
taken, comes behind its request, once, in the clock in which it is due, and is OKAY or SLVERR. Reset ends all that is
under way.
"""

from collections.abc import Iterator
from typing import NamedTuple

from amaranth.lib.wiring import Component

from pimloom.rtl.controller.registers import OKAY, SLVERR
from pimloom.rtl.flow.emit.formal import CHECK, bound, checked

UNDER_WAY = 2  # writes: one behind another whose response waits


class Way(NamedTuple):
    """One of the five channels: who offers, and what."""

    name: str
    offers: str
    payload: tuple[str, ...]


WAYS = (
    Way("aw", "host", ("awaddr", "awprot")),
    Way("w", "host", ("wdata", "wstrb")),
    Way("ar", "host", ("araddr", "arprot")),
    Way("b", "block", ("bresp",)),
    Way("r", "block", ("rdata", "rresp")),
)
HEAD = """// Assertions of the handshakes of AXI4-Lite at the ports of {block}, to which they are bound below.
// A message begins with who is to blame: the host, which drives AW, W and AR, or the block, which drives B and R.
module {block}_handshakes (
{ports}
);
"""
COUNTS = """
  // requests that were taken and whose response was not, before this clock
  reg [2:0] addresses = 0, words = 0, reads = 0;
  // a response to a write is due in this clock: address and word were there in the one before, and no other was in
  // its way; to a read: its address was taken in the clock before
  reg write_due = 0, read_due = 0;
  wire aw_taken = s_axi_awvalid && s_axi_awready, w_taken = s_axi_wvalid && s_axi_wready;
  wire b_taken = s_axi_bvalid && s_axi_bready;
  wire ar_taken = s_axi_arvalid && s_axi_arready, r_taken = s_axi_rvalid && s_axi_rready;
  always @(posedge clk) begin
    addresses <= rst ? 0 : addresses + 3'(aw_taken) - 3'(b_taken && addresses != 0);
    words <= rst ? 0 : words + 3'(w_taken) - 3'(b_taken && words != 0);
    reads <= rst ? 0 : reads + 3'(ar_taken) - 3'(r_taken && reads != 0);
    write_due <= !rst && addresses > 3'(s_axi_bvalid) && words > 3'(s_axi_bvalid) && (!s_axi_bvalid || s_axi_bready);
    read_due <= !rst && ar_taken;
  end
"""


def handshakes(component: Component, block: str) -> str:
    """The text of `BLOCK_handshakes.sv` for a component with the ports `s_axi_*` of `AxiRegisters`."""
    bits = {name: len(getattr(component, name)) for name in component.signature.members if name.startswith("s_axi_")}
    names = ["clk", "rst", *bits]
    ports = ",\n".join(f"  input wire {_width(bits.get(name, 1))}{name}" for name in names)
    lines = [CHECK + HEAD.format(block=block, ports=ports)]
    for way in WAYS:
        lines += _stands(way, bits)
    lines += [COUNTS, *_responses()]
    wired = ", ".join(f".{name}({name})" for name in names)
    return "\n".join([*lines, "endmodule", "", *bound(block, "handshakes", wired)])


def _width(bits: int) -> str:
    return f"[{bits - 1}:0] " if bits > 1 else ""


def _stands(way: Way, bits: dict[str, int]) -> Iterator[str]:
    """What is offered and not taken is there in the next clock, and is the same."""
    valid, ready = f"s_axi_{way.name}valid", f"s_axi_{way.name}ready"
    ports = [f"s_axi_{port}" for port in way.payload]
    width, now = sum(bits[port] for port in ports), "{" + ", ".join(ports) + "}"
    name = way.name.upper()
    yield f"  reg {way.name}_stood = 0; reg {_width(width)}{way.name}_was = 0;"
    yield f"  always @(posedge clk) begin {way.name}_stood <= !rst && {valid} && !{ready}; {way.name}_was <= {now}; end"
    yield _always(f"!{way.name}_stood || {valid}", f"{way.offers}: {name}VALID fell before {name}READY")
    what = " or ".join(port.upper() for port in way.payload)
    yield _always(
        f"!({way.name}_stood && {valid}) || {now} == {way.name}_was",
        f"{way.offers}: {what} changed before {name}READY",
    )


def _responses() -> Iterator[str]:
    known = {"b": "BRESP", "r": "RRESP"}
    yield _always("!s_axi_bvalid || addresses != 0 && words != 0", "block: a response to no write")
    yield _always("!write_due || s_axi_bvalid", "block: a write without a response")
    yield _always("!s_axi_rvalid || reads != 0", "block: a response to no read")
    yield _always("!read_due || s_axi_rvalid", "block: a read without a response")
    for counted, what in (("addresses", "AW"), ("words", "W")):
        yield _always(f"{counted} <= {UNDER_WAY}", f"block: {what} taken ahead of more than a response")
    yield _always("reads <= 1", "block: AR taken ahead of a response")
    for name, port in known.items():
        response = f"s_axi_{port.lower()}"
        says = f"!s_axi_{name}valid || {response} == {OKAY} || {response} == {SLVERR}"
        yield _always(says, f"block: {port} is neither OKAY nor SLVERR")


def _always(holds: str, broken: str) -> str:
    return checked(holds, f'$error("{broken}")', "HOST" if broken.startswith("host") else "BLOCK")
