"""CENT: CXL devices of AiM channels that hold a whole model."""
