"""The blocks that something is proved of, each with its small geometry."""

from collections.abc import Callable

import msgspec

from pimloom.arch.error import UserError
from pimloom.arch.optics import load_optics, switch_table
from pimloom.arch.part import Part
from pimloom.arch.system import load_part
from pimloom.arch.table import Table, compile_table
from pimloom.rtl.flow.claims import CLAIMED
from pimloom.rtl.flow.lookup import build
from pimloom.rtl.flow.npu.proofs import NPU
from pimloom.rtl.formal.ocs import SWITCH_PROPERTIES, SwitchQuestion, SwitchTwin, any_switch
from pimloom.rtl.formal.proof import STEP, SequencerQuestion
from pimloom.rtl.formal.properties import PROPERTIES, Twin
from pimloom.rtl.formal.question import Subject, Task

BANKS, ROWS, COLUMNS, STREAMS = 2, 4, 2, 2  # of the geometry that is asked about
BITS: dict[Task, int] = {"prove": 10, "lemma": 10, "search": 10, "see": 4, "break": 4}  # of a free wait


def _sequencer(part: str) -> Subject:
    device = load_part(part).value
    build("sequencer", part, device)
    table = small_table(device)

    def question(name: str, own: bool, task: Task, twin: Twin | None) -> str:
        return SequencerQuestion(table, STREAMS, 0 if own else BITS[task], name, task, twin).rtlil()

    def key(name: str, own: bool, task: Task, twin: Twin | None) -> list[str]:
        return table_key(table, name, 0 if own else BITS[task], task, twin)

    return Subject("sequencer", part, PROPERTIES, STEP, question, key)


def _switch(part: str) -> Subject:
    table = switch_table(load_optics(part).value)

    def question(name: str, own: bool, task: Task, twin: SwitchTwin | None) -> str:
        return SwitchQuestion(table if own else any_switch(), 0 if own else BITS[task], name, task, twin).rtlil()

    def key(name: str, own: bool, task: Task, twin: SwitchTwin | None) -> list[str]:
        return [repr(table if own else any_switch()), name, str(0 if own else BITS[task]), task, repr(twin)]

    return Subject("ocs_switch", part, SWITCH_PROPERTIES, None, question, key)


SUBJECTS: dict[str, Callable[..., Subject]] = {
    "sequencer": _sequencer,
    "ocs_switch": _switch,
    **NPU,
    **CLAIMED,
}


def small_table(part: Part) -> Table:
    """The part's tables and timings with as few banks, rows and columns as show all there is to show.

    Raises UserError for a part whose pseudo channels or ranks are no power of two.
    """
    for level in ("pseudo_channels", "ranks"):
        nodes = getattr(part.organization, level)
        if nodes & (nodes - 1):
            raise UserError(f"{part.description}: proofs are for 1, 2, 4, … {level.replace('_', ' ')}, not {nodes}")
    org = msgspec.structs.replace(
        part.organization, bank_groups=BANKS, banks_per_group=BANKS, rows=ROWS, columns=COLUMNS
    )
    return compile_table(msgspec.structs.replace(part, organization=org))


def table_key(table: Table, name: str, bits: int, task: Task, twin: Twin | None) -> list[str]:
    """All that decides a question about a sequencer of this table, beside the sources."""
    rules = [c.tolist() if hasattr(c, "tolist") else c for c in table.rules]
    return [repr(table.names), repr(rules), name, str(STREAMS), str(bits), task, repr(twin)]
