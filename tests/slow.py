"""Cases that only `make test-all` runs."""

from typing import Any

import pytest

from pimloom.arch.names import list_names

# Of parts that differ in their timings alone one is looked at each day.
OTHER_GRADES = ("ddr4_2400", "ddr5_6400", *(f"hbm3_attacc_{rate}" for rate in (4800, 5600, 6000, 6400)))


def slow(*values: Any) -> Any:
    """A case of `parametrize`, marked."""
    return pytest.param(*values, marks=pytest.mark.slow)


def parts() -> list[Any]:
    """The shipped parts, other grades of one marked."""
    return [slow(name) if name in OTHER_GRADES else name for name in list_names("parts")]
