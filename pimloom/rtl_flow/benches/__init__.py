"""cocotb benches: each runs inside a simulator's process, reads `exchange.given()` and returns by `exchange.leave()`."""
