"""Compiled: plain arrays in, nothing allocated."""
