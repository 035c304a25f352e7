"""The commands of an AiM device as CSV, plain, `.gz` or `.zst`."""

from pathlib import Path

import numpy as np

from pimloom.arch.aim import COMMANDS
from pimloom.systems.memory.digits import DECIMAL, WORD
from pimloom.systems.memory.logs import ROWS, CsvLog

COLUMNS = ("cycle", "channel", "command", "bank", "row")


class AimLog(CsvLog):
    """COLUMNS, -1 = not applicable; the row of an activation function lies beyond those of the part."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, COLUMNS, (DECIMAL, DECIMAL, WORD, DECIMAL, DECIMAL), COMMANDS)

    def commands(self, rows: np.ndarray) -> None:
        """Commands in the order of their clocks."""
        for first in range(0, len(rows), ROWS):
            self.write(np.ascontiguousarray(rows[first : first + ROWS]))
