"""Descriptions of memories in the file formats of other simulators, read as our `Memory`."""
