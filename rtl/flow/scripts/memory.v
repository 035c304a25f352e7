// Yosys: a memory that is written to becomes ports of the block, one cell a bit; it would be a macro, not flip-flops.
(* techmap_celltype = "$mem_v2" *)
module memory_outside (RD_CLK, RD_EN, RD_ARST, RD_SRST, RD_ADDR, RD_DATA, WR_CLK, WR_EN, WR_ADDR, WR_DATA);
  parameter MEMID = "";
  parameter SIZE = 0, OFFSET = 0, ABITS = 0, WIDTH = 0, INIT = 0, RD_PORTS = 0, WR_PORTS = 0;
  parameter RD_CLK_ENABLE = 0, RD_CLK_POLARITY = 0, RD_TRANSPARENCY_MASK = 0, RD_COLLISION_X_MASK = 0;
  parameter RD_WIDE_CONTINUATION = 0, RD_CE_OVER_SRST = 0, RD_ARST_VALUE = 0, RD_SRST_VALUE = 0, RD_INIT_VALUE = 0;
  parameter WR_CLK_ENABLE = 0, WR_CLK_POLARITY = 0, WR_PRIORITY_MASK = 0, WR_WIDE_CONTINUATION = 0;
  input [RD_PORTS-1:0] RD_CLK, RD_EN, RD_ARST, RD_SRST;
  input [RD_PORTS*ABITS-1:0] RD_ADDR;
  output [RD_PORTS*WIDTH-1:0] RD_DATA;
  input [WR_PORTS-1:0] WR_CLK;
  input [WR_PORTS*WIDTH-1:0] WR_EN, WR_DATA;
  input [WR_PORTS*ABITS-1:0] WR_ADDR;
  wire _TECHMAP_FAIL_ = WR_PORTS == 0;  // a ROM is logic
  localparam INS = RD_PORTS * (1 + ABITS) + WR_PORTS * (ABITS + 2 * WIDTH);
  wire [INS-1:0] ins = {RD_EN, RD_ADDR, WR_ADDR, WR_EN, WR_DATA};
  genvar i;
  generate
    for (i = 0; i < INS; i = i + 1) begin : in
      (* keep *) memory_input bit (.A(ins[i]));
    end
    for (i = 0; i < RD_PORTS * WIDTH; i = i + 1) begin : out
      memory_output bit (.Y(RD_DATA[i]));
    end
  endgenerate
endmodule
