"""What a shell completes."""

import os
import subprocess
import sys

import pytest

CASES = [
    ("pimloom r", ["report", "rtl", "run"]),
    ("pimloom fabric w", ["waste"]),
    ("pimloom run pim_", ["pim_gpt"]),
    ("pimloom compare pim_gpt,npu_o", ["pim_gpt,npu_only"]),
    ("pimloom run pim_gpt --model gpt2-", ["gpt2-large", "gpt2-medium", "gpt2-xl"]),
    ("pimloom trace hbm2_2", ["hbm2_2000", "hbm2_2400"]),
    ("pimloom trace ddr4_3200 --controller d", ["default", "dramsim3"]),
    ("pimloom rtl emit sequencer --part gddr6_a", ["gddr6_aim", "gddr6_aim_isr"]),
    ("pimloom rtl synth pim_unit --js", ["--json"]),
]


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_names_and_options(typed: str, offered: list[str]) -> None:
    asks = {"_PIMLOOM_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    command = [sys.executable, "-m", "pimloom"]
    done = subprocess.run(command, env=os.environ | asks, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == offered and not done.stderr
