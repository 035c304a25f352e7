"""The version of pimloom, which every result carries."""

__version__ = "0.1.0"
