"""The sequencer behind AXI4-Lite against the engine: what a host writes and reads, and what must come of it."""
