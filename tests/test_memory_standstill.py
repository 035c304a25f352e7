"""Where the memory engine cannot go on: one sentence, no endless run; numbers such as 2.5 are the specification's."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pimloom.arch.error import UserError
from pimloom.arch.foreign import ramulator2_file
from pimloom.arch.foreign.dramsim3 import load_dramsim3
from pimloom.arch.foreign.ramulator2 import load_ramulator2, rules
from tests.foreign import YAML, changed
from tests.memory_run import run
from tests.resolve_dramsim3 import unresolved
from tests.test_memory_random import ASLEEP, LIVELOCK, SAYS, STARVED, Lost
from tests.test_naive_controllers import SLEEPY, address, controllers, device, kept, read_then_written


def dramsim3_says(folder: Path, config: dict[str, Any], requests: list[tuple[int, bool, int]]) -> str:
    (folder / "a.ini").write_text(unresolved(config))
    with pytest.raises(UserError) as caught:
        run(load_dramsim3(folder / "a.ini"), requests)
    return str(caught.value)


def ramulator_says(folder: Path, config: dict[str, Any], requests: list[tuple[int, bool]]) -> str:
    (folder / "a.yaml").write_text(json.dumps(config))
    with pytest.raises(UserError) as caught:
        run(load_ramulator2(folder / "a.yaml"), requests)
    return str(caught.value)


def test_dramsim3_livelock_and_abort(tmp_path):
    found = re.match(LIVELOCK, dramsim3_says(tmp_path, device(), read_then_written(32)))
    assert found and int(found[1], 16) == address(row=19)
    waking = [(address(row=7), False, 0), (address(rank=1), False, 1000)]
    assert re.match(f"(?=clock 100[0-9]:){ASLEEP}", dramsim3_says(tmp_path, device(**SLEEPY), waking))


def test_dramsim3_loses_a_column_command(tmp_path):
    """2.1: a read of bank 0 and a write of bank 1 are both ready in cycle 16, as write data come so late."""
    late = {"CL": 5, "CWL": 40, "tRCDRD": 14, "tRCDWR": 8, "unified_queue": 1}
    config = kept("dramsim3_hbm2_dual")["config"] | late
    said = dramsim3_says(tmp_path, config, [(0, False, 0), (1 << 11, True, 0)])
    assert said.startswith("clock 16: ") and re.match(SAYS[Lost], said)


@pytest.mark.parametrize(
    "changes",
    [
        {"tREFI": 600, "tRAS": 700, "tRCD": 50},  # 50 clocks after an ACT the next refresh is due
        {"refresh_policy": 2, "queue_structure": "PER_RANK", "tREFIb": 50},  # 2.5: the backlog blocks a whole rank
    ],
)
def test_dramsim3_may_do_nothing_but_refresh(tmp_path, changes):
    one_rank = device(channel_size=8192, **changes)
    assert re.match(STARVED, dramsim3_says(tmp_path, one_rank, [(address(row=row), False, 0) for row in range(30)]))


def test_ramulator_may_come_to_a_standstill(tmp_path):
    """3.10: HBM12 does not look for a row command in the active buffer; 3.6: nothing is less than no write."""
    config = kept("ramulator_hbm2_mix")["config"]
    cap = {"row_policy": {"impl": "ClosedCAP", "cap": 1}}
    (controller,) = config["memory_system"]["controllers"]
    capped = {"memory_system": config["memory_system"] | {"controllers": [controller | cap]}}
    rng = Random(2)
    places = [
        (rng.randrange(4) << 5 | rng.randrange(2) << 13 | rng.randrange(3) << 16, rng.random() < 0.5) for _ in range(12)
    ]
    assert re.match(STARVED, ramulator_says(tmp_path, capped, places))
    for refresh in ("AllBank", "NoRefresh"):
        changes = {"wr_low_watermark": 0.0, "refresh_manager": {"impl": refresh}}
        said = ramulator_says(tmp_path, controllers(changes), [(0, True), (1 << 20, False)])
        assert re.match(f"{STARVED}.*refresh less often, or use another controller$", said)


def test_a_window_counts_each_previous_command_by_itself(tmp_path):
    """3.8: the history of a node is that of one command."""
    (tmp_path / "a.yaml").write_text(changed(YAML, "[1, [0], [0], 34, 4]", "[1, [0, 3], [0], 34, 4]"))
    said = [str(rule) for rule in rules(ramulator2_file.read_config(tmp_path / "a.yaml"))]
    assert said[1:3] == ["ACT → ACT, same rank, 4th latest: 34", "RD → ACT, same rank, 4th latest: 34"]
