"""Figures and texts of fabrics."""
