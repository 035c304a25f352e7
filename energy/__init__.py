"""What it costs: pJ, mm2."""
