# amaranth: UnusedElaboratable=no
"""The assertions beside `sequencer_axi`: silent where host and block keep to AXI4-Lite, and each fires at a breach."""

import re
import subprocess
from pathlib import Path

from amaranth.hdl import Module

from pimloom.arch.system import load_part
from pimloom.rtl.controller.moments import without_moments
from pimloom.rtl.controller.registers import AxiRegisters
from pimloom.rtl.flow.axi.host import often_refreshed
from pimloom.rtl.flow.axi.verify import BANKS, SHALLOW
from pimloom.rtl.flow.emit.handshakes import handshakes
from pimloom.rtl.formal.axi import Deaf, Eager, Greedy, Restless
from pimloom.rtl.verilog import to_verilog
from tests.verilated import program

TABLE = without_moments(often_refreshed(load_part("gddr6_pim_gpt").value, BANKS))
CLOCKS = 2000
HOST = """
module pair_{number} (input wire clk, input wire rst);
  reg [2:0] up = 0;  // AW, W, AR
  reg [1:0] takes = 0;
  reg [11:0] awaddr = 0, araddr = 0;
  reg [31:0] wdata = 0;
  reg [3:0] wstrb = 0;
  wire awready, wready, arready, bvalid, rvalid;
  wire [2:0] ready = {{arready, wready, awready}};
  wire [2:0] goes = rst ? 0 : up & ready;
  reg [31:0] dice = 0;
  wire [2:0] fresh = (~up | goes) & dice[2:0];
  wire breaks = dice[5:3] == 0;
  always @(posedge clk) begin
    dice <= $urandom;
    up <= rst ? 0 : (up & ~goes) | fresh;
    takes <= 2'($urandom);
    if (fresh[0]) awaddr <= 12'($urandom) & 12'h07f;
    if (fresh[1]) begin wdata <= $urandom; wstrb <= 4'($urandom); end
    if (fresh[2]) araddr <= 12'($urandom) & 12'h07f;
    {breach}
  end
  {block} it (
    .clk(clk), .rst(rst), .o__ready(takes[1]), .fits(1), .clear(0), .closed(0), .own(0), .up(1),
    .s_axi_awaddr(awaddr), .s_axi_awprot(0), .s_axi_awvalid(up[0]), .s_axi_awready(awready),
    .s_axi_wdata(wdata), .s_axi_wstrb(wstrb), .s_axi_wvalid(up[1]), .s_axi_wready(wready),
    .s_axi_bvalid(bvalid), .s_axi_bready(takes[0]),
    .s_axi_araddr(araddr), .s_axi_arprot(0), .s_axi_arvalid(up[2]), .s_axi_arready(arready),
    .s_axi_rvalid(rvalid), .s_axi_rready(takes[1])
  );
endmodule
"""
TOP = """
module top (input wire clk);
  reg [31:0] i = 0;
  wire rst = i < 3 || i % 512 < 2;
  always @(posedge clk) begin
    i <= i + 1;
    if (i == {clocks}) $finish;
  end
{pairs}
endmodule
"""


class Fickle(AxiRegisters):
    """Changes its responses while they stand."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += [self.s_axi_bresp.eq(self.clock[0] << 1), self.s_axi_rdata.eq(self.clock)]
        return m


class Chatty(AxiRegisters):
    """Answers all the time."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += [self.s_axi_bvalid.eq(1), self.s_axi_rvalid.eq(1)]
        return m


class Silent(AxiRegisters):
    """Forgets a response now and then, of a read or of a write."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        with m.If(self.clock[:3] == 0):
            m.d.sync += [self.answered.eq(0), self.read.eq(0)]
        return m


class Exclusive(AxiRegisters):
    """Answers with codes of exclusive accesses."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += [self.s_axi_bresp.eq(1), self.s_axi_rresp.eq(1)]
        return m


class Hoarding(AxiRegisters):
    """Takes addresses and words while others wait."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += [self.s_axi_awready.eq(1), self.s_axi_wready.eq(1)]
        return m


BLOCKS: dict[type[AxiRegisters], set[str]] = {
    AxiRegisters: set(),
    Restless: {"block: BVALID fell before BREADY"},
    Greedy: {"block: RDATA or RRESP changed before RREADY", "block: AR taken ahead of a response"},
    Eager: {"block: a response to no write"},
    Deaf: {"block: AW taken ahead of more than a response"},
    Hoarding: {"block: W taken ahead of more than a response"},
    Fickle: {"block: BRESP changed before BREADY", "block: RDATA or RRESP changed before RREADY"},
    Chatty: {"block: a response to no write", "block: a response to no read"},
    Silent: {
        "block: a write without a response",
        "block: a read without a response",
        "block: RVALID fell before RREADY",
    },
    Exclusive: {"block: BRESP is neither OKAY nor SLVERR", "block: RRESP is neither OKAY nor SLVERR"},
}
HOSTS = {
    "if (breaks) up[0] <= 0;": {"host: AWVALID fell before AWREADY"},
    "if (breaks) up[1] <= 0;": {"host: WVALID fell before WREADY"},
    "if (breaks) up[2] <= 0;": {"host: ARVALID fell before ARREADY"},
    "if (breaks) awaddr <= ~awaddr;": {"host: AWADDR or AWPROT changed before AWREADY"},
    "if (breaks) wstrb <= ~wstrb;": {"host: WDATA or WSTRB changed before WREADY"},
    "if (breaks) araddr <= ~araddr;": {"host: ARADDR or ARPROT changed before ARREADY"},
}


def heard(folder: Path) -> list[set[str]]:
    """What the assertions say of each pair: the blocks with a good host, then the hosts with the block."""
    texts = []
    for number, block in enumerate(BLOCKS):
        name = f"block_{number}"
        texts += [to_verilog(block(TABLE, SHALLOW), name), handshakes(AxiRegisters(TABLE, SHALLOW), name)]
        texts.append(HOST.format(number=number, block=name, breach=""))
    for number, breach in enumerate(HOSTS, start=len(BLOCKS)):
        texts.append(HOST.format(number=number, block="block_0", breach=breach))
    pairs = range(len(BLOCKS) + len(HOSTS))
    texts.append(TOP.format(clocks=CLOCKS, pairs="\n".join(f"  pair_{n} number_{n} (.clk, .rst);" for n in pairs)))
    made = str(program("handshakes", {"top.sv": "\n".join(texts)}))
    ran = subprocess.run(
        [made, "+verilator+error+limit+999999"], cwd=folder, capture_output=True, text=True, check=False
    )
    found: list[set[str]] = [set() for _ in pairs]
    for line in ran.stdout.splitlines():
        if told := re.search(r"number_(\d+)\.it\.handshakes\S*: (.*)", line):
            found[int(told[1])].add(told[2].removeprefix("Assertion failed in top.").strip())
    assert re.search(r"\$finish", ran.stdout), ran.stdout[-500:] + ran.stderr[-500:]
    return found


def test_each_breach_is_told_and_nothing_else(tmp_path: Path) -> None:
    """A block and a host that keep to the rules hear nothing, and every assertion is broken by somebody."""
    said = heard(tmp_path)
    assert said[0] == set()
    for block, expected, found in zip(BLOCKS, BLOCKS.values(), said, strict=False):
        assert expected <= found, (block, found)
        assert all(sentence.startswith("block: ") for sentence in found), (block, found)
    for (breach, expected), found in zip(HOSTS.items(), said[len(BLOCKS) :], strict=True):
        assert expected == found, breach
    text = handshakes(AxiRegisters(TABLE, SHALLOW), "sequencer_axi")
    assert set(re.findall(r'\$error\("(.*)"\)', text)) == set().union(*said)
