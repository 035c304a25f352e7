"""Requests that arrive, join a batch, grow by a token an iteration and leave; nothing here knows a machine."""
