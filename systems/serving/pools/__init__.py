"""Prompts on one pool of machines, decode on another, and the link that carries keys and values between them."""
