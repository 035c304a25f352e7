"""Requests between the ports of a PIM channel and its command bus, and their answers."""
