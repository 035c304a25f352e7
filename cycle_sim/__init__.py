"""When things happen."""
