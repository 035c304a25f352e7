"""The public Python API: `pimloom.run`, `pimloom.frame`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pimloom.arch.llm import load_llm
from pimloom.arch.system import load_system
from pimloom.reports.result import Result
from pimloom.reports.simulate import simulate

if TYPE_CHECKING:
    import pandas


def run(
    system: str,
    *,
    model: str | Path,
    generate: int = 1024,
    set: Mapping[str, object] | None = None,
    check: bool = False,
    seed: int = 0,
) -> Result:
    """Simulate `model` generating `generate` tokens on `system`, batch 1, empty prompt.

    system: a name from `pimloom list` or a path to a system YAML. model: a preset name, a Hugging Face config.json, or
    its folder. set: overrides by dotted place, as `--set` takes them (`{"npu.clock_mhz": 500}`). check: run the
    legality monitor on every command trace. Returns one `Result`; raises `pimloom.arch.error.UserError`.

    >>> run("pim_gpt", model="gpt2", generate=1).cycles
    148276
    """
    overrides = {place: _yaml(value) for place, value in (set or {}).items()}
    return simulate(load_system(system, overrides), load_llm(model), generate, check=check, seed=seed)


def frame(results: Iterable[Result]) -> "pandas.DataFrame":
    """Results as a table, one row each; nested fields are dotted columns such as `energy_by_cause_j.mac`."""
    import pandas  # slow to import, and only wanted here

    return pandas.json_normalize([result.as_dict() for result in results])


def _yaml(value: object) -> str:
    """A Python value as one would write it in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
