import gc
import hashlib
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import nullcontext, suppress
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in the command: workers and what they start share few cores

import hypothesis.core
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from markupsafe import escape

from pimloom.arch import inputs
from pimloom.arch.cache import private_folder
from pimloom.cycle_sim.cores import CORES
from pimloom.cycle_sim.npu_pim.known import kept_in
from tests.bytecode import compile_sources
from tests.reference_data import needed

FAULT_TRACE = "5871b881b341c9526223c025eda3a9bd2f0f875cf8d53441688ccd953e11b80d"  # sha256
ROOT = Path(__file__).resolve().parent.parent
LONG = ("test_rtl_", "test_sweep_faults", "test_serving_report")  # first: no worker waits for another's long last test
OBJECTS = ""
TOLD_S = 0.005  # --durations-min

if "PIMLOOM_CACHE" not in os.environ:
    own = ROOT / "build" / "cache"  # built simulators and finished proofs
    own.mkdir(parents=True, exist_ok=True)
    own.chmod(0o700)
    for name in ("yowasp", "kernels"):  # what `make setup` has compiled for this machine
        with suppress(FileExistsError):  # linked before, or by another worker
            if folder := private_folder(name):
                (own / name).symlink_to(folder)
    os.environ["PIMLOOM_CACHE"] = str(own)
    OBJECTS = " ".join([sys.executable, "-S", "-E", str(ROOT / "tests" / "object_cache.py"), str(own / "objects")])


def pytest_configure(config: pytest.Config) -> None:
    """Compile what a change to the kernels has made necessary; then none that is not listed."""
    if OBJECTS:  # of the slow tests, some run a model for long
        level = "-O0" if config.option.markexpr == "not slow" else "-"
        os.environ.setdefault("OBJCACHE", f"{OBJECTS} {level}")
    if os.environ.get("PIMLOOM_KERNELS") == "python":
        return
    if not hasattr(config, "workerinput"):
        compile_sources()
        subprocess.run([sys.executable, "-m", "pimloom.cycle_sim.compiled"], check=True)
    else:
        CORES.set(1)  # the other workers have theirs
    os.environ.setdefault("PIMLOOM_KERNELS", "listed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what pytest makes of the tests' sources, and do not look again for garbage in all that is collected."""
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000, 20, 50)  # seldom: a tenth of the time went there
        gc.enable()
        sys.dont_write_bytecode = kept


def pytest_sessionfinish() -> None:
    """pytest looks for garbage five times at the end: not again in all that is left."""
    gc.freeze()


# `ci` draws the same examples every time; `explore` draws new ones:
#   pytest tests/test_x.py --hypothesis-profile=explore
settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("ci"), derandomize=False, max_examples=100_000)
settings.load_profile("ci")
hypothesis.core.deterministic_PRNG = nullcontext  # type: ignore[assignment, attr-defined] # no test draws from them


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"fault_trace", "reference_data", "shared"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("reference")
    items.sort(key=lambda item: not item.path.name.startswith(LONG))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """A command of the test before has read files whose numbers are now those of others."""
    inputs.end()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker tells of a test once, and of its setup and teardown if they failed or --durations would show them.

    Of most tests, five messages to the controller took longer than the test.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration >= TOLD_S:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture(scope="session", autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """What NPUs' programs leave is kept for all tests of a run: half of them are programs that another test ran."""
    with kept_in(tmp_path_factory.getbasetemp().parent / "programs"):
        yield


@pytest.fixture
def each_program_runs() -> Generator[None]:
    """For tests of how they run."""
    with kept_in(None):
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of numbers: figures that other tests draw are their labels."""
    for module in ("figures", "spans"):
        monkeypatch.setattr(f"pimloom.reports.{module}.draw_svg", lambda label, draw, height_in: escape(label))


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder of the ground truth."""
    return needed(".")


@pytest.fixture(scope="session")
def fault_trace() -> Path:
    """The public fault trace, whose figures the tests know."""
    file = needed("infinitehbd_fault_trace.json")
    if hashlib.sha256(file.read_bytes()).hexdigest() != FAULT_TRACE:
        pytest.skip(f"{file} is not the public fault trace, of which the figures are known")
    return file


@pytest.fixture(scope="session")
def shared() -> Path:
    """Papers and reference data that lie beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder ../shared beside the checkout")
    return folder
