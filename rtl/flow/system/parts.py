"""Parts of the machine by their English: movers, units that work for a known time, programs, the way to a channel."""

from collections.abc import Iterable

from pimloom.rtl.flow.system.channel_model import DATA, PIM, ChannelModel, Clock
from pimloom.rtl.flow.system.program import Step, Steps
from pimloom.rtl.system.dots import RESULTS
from pimloom.rtl.system.plan import Sizes

END = 0  # kind of a program's last step


class Mover:
    """Asks for the columns of a step, one a clock; idle when all are there, or have issued."""

    def __init__(self, write: bool, columns: int) -> None:
        self.write, self.columns = write, columns
        self.bank = self.next = self.left = self.pending = 0

    def begin(self, step: Step) -> None:
        self.bank, self.next, self.left = step.get("bank", 0), step.get("place", 0), step["count"]
        self.pending = self.left

    def ask(self) -> dict[str, int]:
        """The next column."""
        row, col = divmod(self.next, self.columns)
        self.next, self.left = self.next + 1, self.left - 1
        return {"write": int(self.write), "bank": self.bank, "row": row, "col": col}


class Busy:
    """A unit that is at work until a clock that is known when it begins."""

    def __init__(self) -> None:
        self.until, self.clocks = -1, 0

    def begin(self, t: int, clocks: int) -> None:
        self.until, self.clocks = t + clocks, self.clocks + clocks

    def idle(self, t: int) -> bool:
        return t > self.until


class Walker:
    """Programs of a job, one after the other."""

    def __init__(self) -> None:
        self.steps, self.at, self.waiting, self.since = Steps(), 0, list[Steps](), 0
        self.active = False

    def start(self, t: int, jobs: Iterable[Steps]) -> None:
        first, *self.waiting = jobs
        self._next(t, first)

    def _next(self, t: int, steps: Steps) -> None:
        self.steps, self.at, self.since, self.active = steps, 0, t + 1, True

    def look(self, t: int, quiet: bool) -> Step | None:
        """The step that leaves in clock t if its unit is free."""
        if not self.active or t < self.since:
            return None
        step = self.steps[self.at]
        return None if step["kind"] == END or step.get("wait") and not quiet else step

    def ends(self, t: int, quiet: bool) -> bool:
        """Whether clock t is the job's last one; the next of its programs begins if it is not the last."""
        if not self.active or t < self.since or self.steps[self.at]["kind"] != END or not quiet:
            return False
        if self.waiting:
            self._next(t, self.waiting.pop(0))
            return False
        self.active = False
        return True


class Lane:
    """What lies between programs and one channel: the register before either port, and movers."""

    def __init__(self, sizes: Sizes, requests: int) -> None:
        columns = sizes.spec.part.organization.columns
        self.channel = ChannelModel(sizes.spec, requests)
        self.reader, self.writer = Mover(False, columns), Mover(True, columns)
        self.data = self.dot = False  # whether the registers hold a request
        self.pending = self.results = 0  # copies and products; of these, products
        self.wr = sizes.plan.op.wr

    def clock(self, t: int) -> Clock:
        """The channel, and then the movers' next request."""
        self.room = self.results < RESULTS
        found = self.channel.clock(t)
        self.data_free = not self.data or found.taken[DATA] > 0
        self.dot_free = not self.dot or found.taken[PIM] > 0
        self.data, self.dot = not self.data_free, not self.dot_free
        if self.data_free and (self.reader.left or self.writer.left):
            mover = self.reader if self.reader.left else self.writer
            self.channel.offer(DATA, t + 1, mover.ask())
            self.data = True
        return found

    def answered(self, found: Clock) -> None:
        """What the clock ended."""
        self.reader.pending -= found.reads
        self.writer.pending -= int(found.issued is not None and found.issued[0] == self.wr)
        self.pending -= found.copies + found.results
        self.results -= found.results
