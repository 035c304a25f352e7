// Prints what issues on the command bus, and when.
`timescale 1ps / 1ps
module rows_tb;
  reg clk = 0, rst = 1;
  wire issues, done;
  wire [30:0] command;
  integer ck = 0;
  rows dut (.clk(clk), .rst(rst), .issues(issues), .command(command), .done(done));
  always #312 clk = !clk;  // tCK of 625 ps, half a ps short
  always @(posedge clk) if (!rst) begin
    if (issues) case (command[3:0])
      0: $display("CK %0d: ACT row %0d", ck, command[23:8]);
      1: $display("CK %0d: PRE", ck);
      3: $display("CK %0d: RD", ck);
    endcase
    if (done) $finish;
    ck <= ck + 1;
  end
  initial #1000 rst = 0;
endmodule
