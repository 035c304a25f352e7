"""What commands, schedulers and workers of `sweep_odd` import, once for all of them."""

import distributed
import pandas

from pimloom import cli
from pimloom.reports.terminal import sweep as show
from pimloom.sweeping import pareto, run
from pimloom.sweeping.crew import cluster
from pimloom.sweeping.definition.expression import parse
from pimloom.sweeping.point.code import code_digest

parse("a + 1", "here")  # compiles the grammar
code_digest()

__all__ = ["cli", "cluster", "distributed", "pandas", "pareto", "run", "show"]
