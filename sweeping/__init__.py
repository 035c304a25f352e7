"""Design-space sweeps: points in, a table and a report out. Their libraries are an extra of the package."""

from importlib.util import find_spec

from pimloom.arch.error import UserError

EXTRA = "pip install 'pimloom[sweep]'"
PACKAGES = ("distributed", "optuna", "pyarrow", "lark", "SALib", "plotly", "itables")

for _package in PACKAGES:
    if find_spec(_package) is None:
        raise UserError(f"{_package} is missing; install it with: {EXTRA}")
