"""What must come of a script, told from the clocks in which the host's requests were taken: the map's words and the
engine's clocks."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pimloom.arch.command import STREAM, Role
from pimloom.arch.error import UserError
from pimloom.cycle_sim.dram.stream import issue
from pimloom.cycle_sim.dram.words import describe
from pimloom.rtl.command import COORDINATES, command_layout
from pimloom.rtl.controller.closing import closers
from pimloom.rtl.controller.moments import NEVER_SENT
from pimloom.rtl.controller.registers import BYTE, OKAY, PLACES, READ_ONLY, SLVERR, Interrupt, Register
from pimloom.rtl.flow.axi.host import Script, Write
from pimloom.rtl.flow.axi.told import OpenRows
from pimloom.rtl.flow.cosim import Case
from pimloom.rtl.ports import pack

MAP_BYTES = 4 * len(Register)
REFUSED = 1 << Interrupt.REFUSED


class Seen(NamedTuple):
    """What the bench left of one script, without the number of the case."""

    written: np.ndarray
    read: np.ndarray
    issued: np.ndarray
    over: bool


class State:
    """The registers, as the map has them, and the rows that the commands leave that were taken."""

    def __init__(self, script: Script) -> None:
        self.script, self.rules = script, script.told.part.rules
        self.words = {Register.PLACE: 0, Register.ROW: 0, Register.COLUMN: 0, Register.ENABLE: 0}
        if script.told.part.opcodes({Role.GEMV}):
            self.words[Register.COUNT] = 1
        self.interrupt, self.rows = 0, OpenRows(script.told.part)

    def write(self, write: Write, room: bool) -> int:
        """The response; room: whether the queue has any."""
        if write.address >= MAP_BYTES or (register := Register(write.address // 4)) in READ_ONLY:
            return SLVERR
        if register == Register.COMMAND:
            return self._command(write, room) if write.strobe & 1 else OKAY
        if register == Register.INTERRUPT:
            self.interrupt &= ~(write.data if write.strobe & 1 else 0)
        elif register in self.words:
            mask = sum(0xFF << BYTE * i for i in range(4) if write.strobe >> i & 1)
            self.words[register] = self.words[register] & ~mask | write.data & mask
        return OKAY

    def _command(self, write: Write, room: bool) -> int:
        if not room:
            return SLVERR
        if self._known(write.data & 0xFF):
            return OKAY
        self.interrupt |= REFUSED
        return SLVERR

    def _known(self, opcode: int) -> bool:
        """Whether there is such a command, and its rows are as it needs them; then it moves them."""
        size, table = self.rules.size.tolist(), self.script.told.part
        fan = {name: size[i + 1] // size[i] for i, name in enumerate(COORDINATES)}
        place = {name: self.words[Register.PLACE] >> BYTE * i & 0xFF for i, name in enumerate(PLACES)}
        known = opcode < len(table.names) and opcode not in table.opcodes(NEVER_SENT)
        known &= all(place[name] < fan[name] for name in PLACES)
        known &= self.words[Register.ROW] < self.rules.rows and self.words[Register.COLUMN] < self.rules.columns
        if not known or opcode in table.opcodes({Role.GEMV}) and not self.words[Register.COUNT]:
            return False
        command = {**place, "cmd": opcode, "row": self.words[Register.ROW]}
        if fits := self.rows.fits(command):
            self.rows.move(command)
        return fits


def released(script: Script, seen: Seen) -> Case:
    """The core's own precharges, and the stream of the commands that were taken, each released in the clock in which
    its response is first offered."""
    rows = [(script.writes[row[0]].command, row[3]) for row in seen.written.tolist() if row[5] == OKAY]
    stream = script.case.streams[0][[number for number, _ in rows if number >= 0]].copy()
    stream["release"] = [clock for number, clock in rows if number >= 0]
    own = np.zeros(len(steps := closers(script.case.table)), STREAM)
    for row, step in zip(own, steps, strict=True):
        for name, value in {**step, "count": 1}.items():
            row[name] = value
    return script.case._replace(streams=[np.concatenate([own, stream])])


def mismatches(script: Script, seen: Seen, depth: int) -> list[str]:
    """A sentence for everything that is not as it must be, in the order of clocks."""
    case = released(script, seen)
    own = len(closers(case.table))
    if not seen.over or len(case.streams[0]) != own + len(script.case.streams[0]):
        taken = f"{len(case.streams[0]) - own} of {len(script.case.streams[0])} commands were taken"
        return [f"the host is not done: {taken}, {len(seen.read)} of {len(script.reads)} words read"]
    try:
        model = issue(case.table, case.streams)
    except UserError as error:
        return [f"the model refuses what was taken: {error}"]
    push_ck, issue_ck = case.streams[0]["release"].astype(np.int64), model.issue_ck[0]
    wrong = [*_issues(script, case, seen, issue_ck, model.refresh_ck)]
    wrong += _responses(script, seen, push_ck[own:], issue_ck[own:], int(issue_ck[own - 1]), depth)
    return [sentence for _, sentence in sorted(wrong)]


def _issues(
    script: Script, case: Case, seen: Seen, issue_ck: np.ndarray, refresh_ck: np.ndarray
) -> Iterator[tuple[int, str]]:
    rules = case.table.rules
    nodes = int(rules.size[rules.scope[rules.refresh]]) if rules.refresh >= 0 else 0
    mine, rows = seen.issued[seen.issued[:, 1] >= nodes], case.streams[0]
    shown = rows.copy()
    shown["cmd"] = np.array(script.told.opcode)[rows["cmd"]]
    words = pack(command_layout(script.told.part), shown)
    if len(mine) != len(rows):
        yield 0, f"{len(mine)} commands issued, {len(rows)} were taken"
    for i, ((clock, _, command), want) in enumerate(zip(mine.tolist(), issue_ck.tolist(), strict=False)):
        if command != words[i]:
            yield clock, f"command {i} ({describe(case.table, rows[i])}) issued as {command:#x}, taken as {words[i]:#x}"
        if clock != want:
            yield want, f"command {i} ({describe(case.table, rows[i])}) issued at CK {clock}, model says {want}"
    last = int(issue_ck.max(initial=0))
    others = seen.issued[(seen.issued[:, 1] < nodes) & (seen.issued[:, 0] <= last)][:, [1, 0]]
    expected = refresh_ck[:, [1, 0]][refresh_ck[:, 0] <= last]
    if sorted(others.tolist()) != sorted(expected.tolist()):
        yield last, f"refreshes (node, CK) {others.tolist()}, model says {expected.tolist()}"


def _responses(
    script: Script, seen: Seen, push_ck: np.ndarray, issue_ck: np.ndarray, own_ck: int, depth: int
) -> Iterator[tuple[int, str]]:
    """Each write when its address and word are there and the response before it is gone; each read in its clock."""
    state, reads, before = State(script), seen.read.tolist(), -1

    def read_until(clock: int) -> Iterator[tuple[int, str]]:
        while reads and reads[0][1] < clock:
            yield from _word(script, state, reads.pop(0), push_ck, issue_ck, own_ck, depth)

    for number, address_ck, data_ck, offered, taken, response in seen.written.tolist():
        yield from read_until(offered)
        acts = max(address_ck + 1, data_ck + 1, before)
        waiting = np.searchsorted(push_ck, acts, "right") - np.searchsorted(issue_ck, acts, "left")
        want = state.write(script.writes[number], bool(waiting < depth))
        if (offered, response) != (acts + 1, want):
            said = f"write {number} was answered {response} from CK {offered} on"
            yield offered, f"{said}, model says {want} from CK {acts + 1} on"
        before = taken
    yield from read_until(2**62)


def _word(
    script: Script, state: State, read: list[int], push_ck: np.ndarray, issue_ck: np.ndarray, own_ck: int, depth: int
) -> Iterator[tuple[int, str]]:
    """A read that was taken in a clock, with the registers as they are in it."""
    number, asked, offered, got, response = read
    address, value = script.reads[number], 0
    issued = int(np.searchsorted(issue_ck, asked, "left"))
    waiting = int(np.searchsorted(push_ck, asked, "right")) - issued
    if address < MAP_BYTES:
        last = int(issue_ck[issued - 1]) if issued else 0
        status = (waiting < depth) | (waiting > 0) << 1 | (depth - waiting) << BYTE
        status |= (asked <= own_ck) << 2 | (asked > own_ck + 1) << 3
        shown = {Register.STATUS: status, Register.ISSUED: issued, Register.LAST: last, Register.CLOCK: asked}
        shown[Register.INTERRUPT] = state.interrupt
        value = int((shown | state.words).get(Register(address // 4), 0))
    want = (asked + 1, value, OKAY if address < MAP_BYTES else SLVERR)
    if (offered, got, response) != want:
        said = (
            f"{got:#x} with {response} from CK {offered} on, model says {value:#x} with {want[2]} from CK {want[0]} on"
        )
        yield asked, f"read {number} of {address:#x}, taken in CK {asked}: {said}"
