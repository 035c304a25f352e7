"""Single faults drawn from a netlist: an inverted or constant bit, or one that another flips. All of them lie in one
Verilog, so that it is compiled once; a file that the simulation reads at its start says which is there."""

from pathlib import Path
from random import Random
from typing import NamedTuple

from pimloom.rtl.flow.yowasp import YOSYS, tools

READ = "read_verilog whole.v\nhierarchy -top {top}\nproc\nflatten\nopt_clean\n"
LIST = "mutate -list {most} -seed {seed} -o drawn.ys\n"
WRITE = "script mutants.ys\ndelete -port {top}/w:mutant\nwrite_verilog -noattr mutants.v\n"
WIRE = "  wire [15:0] mutant;\n"
WHICH = """\
  reg [15:0] mutant, mutants [0:0];
  initial begin $readmemh("{file}", mutants); mutant = mutants[0]; end
"""
STATE_OUTSIDE = "memory_map\nopt_clean\nasync2sync\ndffunmap\nexpose -evert-dff\n"
EQUAL = """\
{whole}{line}
{state}rename {top} gate
design -stash gate
{whole}{state}rename {top} gold
design -copy-from gate gate
miter -equiv -make_outputs -flatten gold gate miter
hierarchy -top miter
opt_expr
opt_merge -share_all
opt_clean
sat -timeout 120 -prove trigger 0 miter
"""


class Mutants(NamedTuple):
    """Verilog with mutants 1, 2, … of a module; what each is; the file that says which one is there, 0 for none."""

    top: str
    verilog: str
    said: list[str]
    which: Path

    def take(self, number: int) -> None:
        self.which.write_text(f"{number:x}\n")

    def changes_nothing(self, said: str) -> bool:
        """Whether Yosys proves that, whatever the state and the inputs, neither outputs nor the next state change."""
        whole, folder = READ.format(top=self.top), self.which.parent
        (folder / "equal.ys").write_text(EQUAL.format(whole=whole, line=said, state=STATE_OUTSIDE, top=self.top))
        with tools() as at_hand:
            at_hand.call(YOSYS, "equal.ys", folder=folder)
        return "proof finished - no model found: SUCCESS!" in (folder / f"{YOSYS}.log").read_text()


def mutants_of(verilog: str, top: str, count: int, folder: Path, seed: int = 1) -> Mutants:
    """So many mutants of a module."""
    (folder / "whole.v").write_text(verilog)
    (folder / "list.ys").write_text((READ + LIST).format(top=top, most=count, seed=seed))
    (folder / "write.ys").write_text((READ + WRITE).format(top=top))
    with tools() as at_hand:
        at_hand.run(YOSYS, "list.ys", folder=folder)
        drawn = (folder / "drawn.ys").read_text().splitlines()
        fitting = [line for line in drawn if "-cell" in line and "$meminit" not in line]
        said = Random(seed).sample(fitting, count)
        listed = (f"{line} -ctrl mutant 16 {i}" for i, line in enumerate(said, 1))
        (folder / "mutants.ys").write_text("\n".join(listed) + "\n")
        at_hand.run(YOSYS, "write.ys", folder=folder)
    text = (folder / "mutants.v").read_text()
    assert text.count(WIRE) == 1
    which = folder / "which.hex"
    return Mutants(top, text.replace(WIRE, WHICH.format(file=which)), said, which)
