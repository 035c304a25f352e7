"""Transforms of decoding: what they make of the tokens, rows and caches of a step. Nothing here knows a machine."""
