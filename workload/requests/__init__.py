"""Requests: read from traces, drawn from statistics, with their arrivals and what their beginnings share."""
