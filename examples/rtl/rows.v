// A top level of one's own around the emitted sequencer `near` of ddr4_3200: reads a burst of each of ROWS rows of bank
// 0. It offers one command after the other; the sequencer issues each in its first legal clock.
module rows #(
  parameter ROWS = 3
) (
  input wire clk,
  input wire rst,
  output wire issues,
  output wire [30:0] command,
  output wire done
);
  localparam [3:0] ACT = 4'd0, PRE = 4'd1, RD = 4'd3;  // CMD_ACT, CMD_PRE and CMD_RD of near.v
  reg [1:0] step = 0;  // of a row: ACT, RD, PRE
  reg [15:0] row = 0;
  wire [3:0] opcode = step == 0 ? ACT : step == 1 ? RD : PRE;
  wire ready;
  assign done = row == ROWS;

  near sequencer (
    .clk(clk),
    .rst(rst),
    .heads__0__payload({7'd0, row, 2'd0, 2'd0, opcode}),  // column, row, bank, bank group, opcode
    .heads__0__valid(!done),
    .heads__0__ready(ready),
    .released__0(1'b1),
    .buses__0__valid(issues),
    .buses__0__command(command),
    .buses__0__source(),
    .starved(),
    .stuck()
  );

  always @(posedge clk) begin
    if (ready && !done) begin
      step <= step == 2 ? 0 : step + 1;
      if (step == 2) row <= row + 1;
    end
    if (rst) begin
      step <= 0;
      row <= 0;
    end
  end
endmodule
