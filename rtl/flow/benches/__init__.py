"""cocotb benches: each runs in a simulator's process, reads `exchange.given()` and returns by `exchange.leave()`."""
