"""What iterations cost on a device: each different one simulated once, or read between few that are."""
