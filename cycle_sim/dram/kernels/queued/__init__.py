"""Transaction queues before command queues (DRAMsim3's structure)."""
