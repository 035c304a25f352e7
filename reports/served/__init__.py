"""Requests that were served as a page: summary, what changes over time, percentiles, energy."""
