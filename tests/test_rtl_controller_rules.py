# amaranth: UnusedElaboratable=no
"""Each rule of a PIM channel's controller, one clock shorter or longer in the gates only, is told from the model; those
of one clock or none bind nothing, and have no gates."""

from functools import reduce
from itertools import product

import pytest

from pimloom.arch.system import load_part
from pimloom.arch.table import Table, bend, compile_table, rule_rows
from pimloom.rtl.flow.npu_pim.cosim import Ran, gates, mismatches, model
from pimloom.rtl.flow.npu_pim.traffic import Size, Traffic, small
from tests.bent_controller import bendable
from tests.channel_traffic import mixed
from tests.simulators import needs

CLOCKS, CASES = 1500, 130
LONGER = (0, 25, 100)  # clocks, where other rules ask for as much
PARTS = {"dual": {}, "blocked": {"pim": "newton"}}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dual", "blocked"])
def test_each_rule_off_by_one_in_the_gates_only_is_caught(mode, tmp_path):
    spec = small(load_part("hbm2_neupims", PARTS[mode]).value, mode, Size(bank_groups=2))
    table, cases = compile_table(spec.device()), [mixed(spec, i, CLOCKS) for i in range(CASES)]
    bent = bendable(spec, tmp_path)

    def same(a: Ran, b: Ran) -> bool:
        return not mismatches(spec, a, b)

    def waiting(number: int, by: int) -> Table:
        return reduce(lambda t, rule: bend(t, rule, by), bent.together[number], table)

    def in_gates(number: int, by: int, case: Traffic) -> Ran:
        bent.bend(number, by)
        return gates(spec, [case], CLOCKS, verilog=bent.verilog, simulator=needs("verilator"))[0][0]

    def felt(number: int, by: int) -> tuple[int, Traffic, Ran, Ran] | None:
        """Where the model feels a rule off by one: what it does with the right wait, and with the wrong one."""
        for base, case in product(LONGER, cases):
            right, wrong = (model(spec, case, CLOCKS, waiting(number, wait)) for wait in (base, base + by))
            if not same(right, wrong):
                return base, case, right, wrong
        return None

    for number, rules in enumerate(bent.together):
        for by in (1, -1):
            found = felt(number, by)
            assert found is not None, [str(rule_rows(table.rules)[rule]) for rule in rules]
            base, case, right, wrong = found
            assert same(in_gates(number, base, case), right), rules
            ours = in_gates(number, base + by, case)
            assert not same(ours, right), rules
            assert by < 0 or same(ours, wrong), rules  # too early, two copies may be under way: only the model has room
