"""Requests that arrive over time, served by a scheduler on a device: prices of iterations, the clock, what came out."""
