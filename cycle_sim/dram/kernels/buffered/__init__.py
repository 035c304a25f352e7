"""One scheduler over a read and a write buffer (Ramulator's structure)."""
