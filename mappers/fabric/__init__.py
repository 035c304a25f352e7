"""Groups of GPUs on a fabric: how many fit, where they go, and whether a placement holds."""
