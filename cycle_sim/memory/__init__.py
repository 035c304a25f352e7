"""Memory controllers: when each DRAM command of a stream of requests issues. Event-driven, exact."""
