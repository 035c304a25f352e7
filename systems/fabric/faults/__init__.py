"""Faults of nodes over time: traces of production clusters, and synthetic ones like them."""
