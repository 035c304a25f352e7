"""The clocks that a rule still asks for, at one of its nodes."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

VERILOG = """\
// The clocks that a rule still asks for, at one of its nodes: WINDOW counters, the latest arming first. busy[i]: the
// (i + 1)-th latest arming before this clock is less than WAIT clocks ago. arm: armings in this clock, at most MOST.
module {name} #(
  parameter WINDOW = 1,
  parameter WAIT = 2,
  parameter MOST = 1
) (
  input wire clk,
  input wire rst,
  input wire [$clog2(MOST + 1) - 1:0] arm,
  output wire [WINDOW - 1:0] busy
);
  localparam BITS = $clog2(WAIT + 1);
  localparam [BITS - 1:0] FULL = WAIT - 1;
  reg [WINDOW * BITS - 1:0] left = 0;
  wire [WINDOW * BITS - 1:0] lower;
  genvar i;
  generate
    for (i = 0; i < WINDOW; i = i + 1) begin : counter
      assign busy[i] = |left[i * BITS +: BITS];
      assign lower[i * BITS +: BITS] = left[i * BITS +: BITS] - busy[i];
      integer k;
      always @(posedge clk) begin
        left[i * BITS +: BITS] <= FULL;
        for (k = 0; k <= MOST && k <= i; k = k + 1)
          if (arm == k) left[i * BITS +: BITS] <= lower[(i - k) * BITS +: BITS];
        if (rst) left[i * BITS +: BITS] <= 0;
      end
    end
  endgenerate
endmodule
"""


class Timer(wiring.Component):
    """One rule at one node: a chain of `window` counters, the latest arming first.

    wait: clocks that a rule asks for (int), or None: an input port of `bits`, steady while armed. arm: armings in
    this clock, at most `most`. busy[i]: whether the (i+1)-th latest arming before this clock is less than `wait`
    clocks ago, so the rule binds in this clock where busy[window - 1] is high. Starts idle.

    In Verilog, timers whose wait is a constant are instances of `rule_timer` (VERILOG), with these as parameters.
    """

    def __init__(self, window: int, wait: int | None, bits: int = 0, most: int = 1) -> None:
        self.window, self.most = window, most
        self.bits = bits if wait is None else bits_for(wait)
        super().__init__(
            {"arm": In(range(most + 1)), "busy": Out(window)} | ({"wait": In(bits)} if wait is None else {})
        )
        if wait is not None:
            self.wait = Const(wait, self.bits)
        self.left = [Signal(self.bits, name=f"left_{i}") for i in range(window)]

    @property
    def parameters(self) -> dict[str, int]:
        """Of `rule_timer`, which does the same."""
        assert isinstance(self.wait, Const)
        return {"WINDOW": self.window, "WAIT": self.wait.value, "MOST": self.most}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        full = Signal(self.bits)
        m.d.comb += full.eq(Mux(self.wait == 0, 0, self.wait - 1))
        lower = [Mux(left == 0, 0, left - 1)[: self.bits] for left in self.left]
        for i, left in enumerate(self.left):
            m.d.comb += self.busy[i].eq(left != 0)
            # what stands here next clock, by the number of armings that push the chain on
            choice = [full if armed > i else lower[i - armed] for armed in range(self.most + 1)]
            m.d.sync += left.eq(Array(choice)[self.arm])
        return m
