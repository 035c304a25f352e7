"""Fabrics of optical switches: waste under faults, placement, cost, speed of training, the switch itself."""
