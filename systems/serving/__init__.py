"""Requests that arrive, join a batch, grow by a token an iteration and leave; `machine` has what decodes them."""
