"""Power of a block: its gates in a real run, their toggles, and the library's energies."""
