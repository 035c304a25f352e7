import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

os.environ.setdefault("PIMLOOM_CACHE", str(ROOT / "build" / "cache"))  # built simulators and finished proofs

# `ci` draws the same examples every time; `explore` draws new ones:
#   pytest tests/test_x.py --hypothesis-profile=explore
settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("ci"), derandomize=False, max_examples=100_000)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Papers and reference data that lie beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder ../shared beside the checkout")
    return folder
