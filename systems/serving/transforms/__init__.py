"""Decoding transforms of requests that are served: what each step computes, what comes of it, what it costs."""
