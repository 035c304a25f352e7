"""Duplex: layers on an xPU and on logic dies or banks, a decode step of a batch, and the published grid of steps."""
