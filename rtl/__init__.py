"""The same hardware in gates."""
