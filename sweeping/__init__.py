"""Design-space sweeps: points in, a table and a report out."""
