"""Seeded searches that choose points batch by batch."""
