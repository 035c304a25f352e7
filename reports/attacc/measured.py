"""What the authors' simulator was measured to give, and ours beside it."""

from pathlib import Path

from pimloom.arch.system import load_part
from pimloom.arch.table import compile_table
from pimloom.cycle_sim.attacc.simulate import simulate
from pimloom.mappers.attacc.counts import count_commands
from pimloom.mappers.attacc.layout import Placement, Work, lay_out
from pimloom.mappers.attacc.stream import streams
from pimloom.reports import reproduction
from pimloom.systems.asked import Asked
from pimloom.systems.devices.attacc.asked import attacc_work
from pimloom.systems.devices.attacc.outcome import AttAccOutcome

HERE, PART = Path(__file__).parent, "hbm3_attacc_5200"
FREE = {"timing.nCCDAB": "4 nCK", "timing.nCCDSB": "4 nCK"}  # [secondary A] presets _NPC: no power limit
SIZES = ("heads", "context", "head_dim", "element_bytes")


def rows_of(name: str) -> list[dict[str, str]]:
    """A CSV file of this folder."""
    return reproduction.rows_of(HERE, name)


def work_of(row: dict[str, str]) -> Work:
    """The heads of a stack that a row tells of."""
    return Work(*(int(row[size]) for size in SIZES))


def counts_of(row: dict[str, str]) -> dict[str, int]:
    """Commands in closed form, at banks, as released."""
    work = work_of(row)
    layout = lay_out(load_part(PART).value.organization, Placement.BANK, work)
    return count_commands(layout, work, as_released=True)


def cycles_of(row: dict[str, str]) -> int:
    """Cycles of a stack, as released."""
    part, work = load_part(PART, {} if row["limited"] == "yes" else FREE).value, work_of(row)
    placement = Placement(row["placement"])
    table, layout = compile_table(part), lay_out(part.organization, placement, work)
    every = streams(part.organization, layout, work, as_released=True)
    return max(simulate(table, placement, same.requests).cycles for same in every)


def step_of(row: dict[str, str], fidelity: str) -> AttAccOutcome:
    """A run of a row of steps.csv."""
    batch, prompt, generated = (int(row[key]) for key in ("batch", "prompt", "generated"))
    settings = tuple(row["settings"].split())
    asked = Asked(
        row["system"], row["model"], settings, batch=batch, prompt=prompt, generate=generated, fidelity=fidelity
    )
    return attacc_work(asked).run(lambda done, total: None)
