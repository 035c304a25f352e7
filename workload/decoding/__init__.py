"""Decoding that makes more or fewer tokens in a step than one of each request, as formulas and as draws."""
