"""The wheel and the sdist carry all code and data, and the command runs from the wheel alone."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from setuptools import Distribution  # type: ignore[import-untyped]

from pimloom.cycle_sim.compiled import library

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pimloom", "verilog_tidy")  # what is imported; all other rooms are parts of pimloom
ROOMS = (*PACKAGES, "arch", "cycle_sim", "energy", "mappers", "reports", "rtl", "sweeping", "systems", "workload")


def run(*command, cwd: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_"))}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """All files of the checkout, those that are not yet committed too."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def copy_files(sources: list[str], copy: Path) -> None:
    for name in sources:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)


@pytest.fixture(scope="module")
def dist(sources, tmp_path_factory) -> Path:
    """A folder with the sdist, and the wheel built from that sdist."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    copy_files(sources, copy)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), ".", cwd=copy)
    return out


def packaged(sources: list[str]) -> set[str]:
    return {name for name in sources if name.split("/")[0] in ROOMS}


def test_what_setuptools_takes_is_every_file_of_the_rooms(sources, monkeypatch):
    """Without building: by the packages and the patterns of pyproject.toml."""
    monkeypatch.chdir(ROOT)
    distribution = Distribution({"script_name": "setup.py"})
    distribution.parse_config_files(["pyproject.toml"])
    distribution.include_package_data = False  # by patterns alone, not by what another build has left
    build = distribution.get_command_obj("build_py")
    build.ensure_finalized()
    data = (f"{folder}/{name}" for _, folder, _, names in build.data_files for name in names)
    assert packaged(sources) - {str(Path(name)) for name in (*build.get_source_files(), *data)} == set()


@pytest.mark.slow
def test_wheel_carries_every_file_of_the_rooms(dist, sources):
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        inside = set(wheel.namelist())
    expected = {n if n.split("/")[0] in PACKAGES else f"pimloom/{n}" for n in packaged(sources)}
    assert expected - inside == set()


@pytest.mark.slow
def test_wheel_carries_machine_code_for_any_python(dist):
    (wheel,) = dist.glob("*.whl")
    assert wheel.name.endswith(f"-py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}.whl")
    with zipfile.ZipFile(wheel) as file:
        made = {Path(name).name for name in file.namelist() if "/compiled/made/" in name}
    assert made == {library.place(name, kinds).name for name, _, *kinds in library.listed()}


@pytest.mark.slow
def test_no_machine_code_of_a_wheel_is_from_the_cache(dist, monkeypatch, tmp_path):
    """Its digests need no key, and what is in the cache is no part of it."""
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as file:
        for name in [name for name in file.namelist() if "/compiled/made/" in name]:
            (tmp_path / Path(name).name).write_bytes(file.read(name))
    monkeypatch.setattr(library, "MADE", tmp_path)
    assert all(library.read_code(made) for made in tmp_path.iterdir())


@pytest.mark.slow
def test_two_wheels_that_are_built_at_once_are_the_same(sources, tmp_path):
    copy = tmp_path / "copy"
    copy_files(sources, copy)
    outs = [tmp_path / "one", tmp_path / "other"]
    build = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir")
    builders = [subprocess.Popen([*build, str(out), "."], cwd=copy, stdout=subprocess.DEVNULL) for out in outs]
    assert [builder.wait() for builder in builders] == [0, 0]
    inside = []
    for out in outs:
        (wheel,) = out.iterdir()
        with zipfile.ZipFile(wheel) as file:
            inside.append({(info.filename, info.CRC) for info in file.infolist()})
    assert inside[0] == inside[1]
    assert len([name for name, _ in inside[0] if "/compiled/made/" in name]) == len(library.listed())
    left = {path.name for path in copy.iterdir()} - {name.partition("/")[0] for name in sources}
    assert left <= {"pimloom.egg-info"}  # of what setuptools asks for before it builds
    assert not (copy / "cycle_sim" / "compiled" / "made").exists()


@pytest.mark.slow
def test_sdist_carries_every_file_of_the_rooms(dist, sources):
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert packaged(sources) | {"LICENSE", "README.md", "pyproject.toml"} <= inside


@pytest.fixture(scope="module")
def command(dist, tmp_path_factory) -> Path:
    """`pimloom` in an environment with the wheel and our dependencies, but blind to the checkout."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    wheel = next(dist.glob("*.whl"))
    pip = (sys.executable, "-m", "pip", "--python", str(python))
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel), cwd=home)
    # A path named in a .pth file is searched, but the .pth files in it, an editable install's, are not read.
    site = run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(str(python), "-c", "import pimloom; print(pimloom.__file__, *pimloom.__path__)", cwd=home)
    assert all(Path(path).is_relative_to(site) for path in where.split())
    return home / "bin" / "pimloom"


@pytest.mark.slow
def test_wheel_runs_by_itself(command, tmp_path, monkeypatch):
    from pimloom.arch.version import __version__

    monkeypatch.setenv("PIMLOOM_KERNELS", "listed")  # compile nothing
    monkeypatch.setenv("PIMLOOM_CACHE", str(tmp_path / "empty"))
    few = ("trace", "ddr4", "--pattern", "random", "--requests", "9", "--json", "-", "--quiet")
    traced = run(str(command), *few, cwd=tmp_path)
    assert json.loads(traced)["reads"] == 9
    assert not [path for path in (tmp_path / "empty").rglob("*") if path.is_file()]

    assert run(str(command), "--version", cwd=tmp_path).split()[-1] == __version__
    listed = json.loads(run(str(command), "list", "--json", "-", cwd=tmp_path))
    assert listed.keys() >= {"parts", "systems", "models", "studies"}
    assert "gddr6_pim_gpt" in listed["parts"]
    assert "pim_gpt" in listed["systems"]
    assert "gpt2-xl" in listed["models"]
    assert "pim-gpt" in listed["studies"]
