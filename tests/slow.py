"""Cases that only `make test-all` runs."""

from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """A case of `parametrize`, marked."""
    return pytest.param(*values, marks=pytest.mark.slow)
