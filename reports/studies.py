"""Studies: folders of this room with a `study.py`; each says in its `__init__.py` what it is and what it can be asked.

`STUDY` in `__init__.py` is light, for `pimloom report --help`; `run_study(out, progress, **options)` stands in
`study.py`, or on the porch for a study of what this room may not enter.
"""

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Option(NamedTuple):
    """An option of a study. kind: bool (a flag), int or Path; who does not give it leaves it to `run_study`."""

    name: str
    kind: type
    help: str
    metavar: str | None = None
    least: int | None = None

    @property
    def flag(self) -> str:
        """As typed on the command line."""
        return f"--{self.name.replace('_', '-')}"


class Study(NamedTuple):
    """What a study is, in a line, its options, and how long it takes where that is over 10 s: of one core of an AMD
    EPYC, measured once. cached: later runs are shorter, as results are kept."""

    help: str
    options: tuple[Option, ...] = ()
    takes_s: int | None = None
    cached: bool = False


def studies() -> dict[str, Study]:
    """The studies by name."""
    names = sorted(path.parent.name for path in HERE.glob("*/study.py"))
    return {name.replace("_", "-"): _declared(name) for name in names}


def folder_of(study: str) -> str:
    """The name of a study's folder and module.

    >>> folder_of("pim-gpt")
    'pim_gpt'
    """
    return study.replace("-", "_")


def _declared(folder: str) -> Study:
    found: Study = import_module(f"pimloom.reports.{folder}").STUDY
    return found
