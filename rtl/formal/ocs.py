# amaranth: UnusedElaboratable=no
"""What is proved of the path controller: what its ports may show, as a checker with counters of its own tells.

`lemma` ties the checker's counts to the controller's registers; it carries itself from clock to clock, and the
properties follow from it. Times and path table are any, or the part's own.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assume, Const, Module, Mux, Signal, Value
from amaranth.utils import bits_for

from pimloom.arch.optics import SwitchTable
from pimloom.rtl.formal.checker import any_of, wire
from pimloom.rtl.formal.question import Question, Task
from pimloom.rtl.ocs_switch import ARRIVAL, KEPT, STAGES, SWITCH, TAG_BITS, OcsSwitch

TIMES = ("detect", "decide", "blackout", "retrain")


class Watch:
    """The controller between free inputs, and what was seen of it so far.

    dark[p]: clocks before this one without light on a path, bad: those in which the live path had failed; both stop at
    all ones. idle, unlit: clocks before this one in a row without a live, a closed path. A request with the tag `tag`
    comes at most once: asked, age: whether it has come, and clocks since, as `ends` tells of the clock before; ended:
    whether its end has been told.
    """

    def __init__(self, m: Module, switch: OcsSwitch, times: dict[str, Value], bits: int) -> None:
        self.m, self.switch, self.times = m, switch, times
        wide = bits + 2
        self.total = wire(m, times["blackout"] + times["retrain"], "total")
        self.bound = wire(m, 2 * self.total + 1, "bound")
        self.left = wire(m, Mux(switch.busy, switch.left + 1, 0), "left_with_this")
        self._channels(wide)
        self._request(wide)

    def _channels(self, wide: int) -> None:
        m, q, paths = self.m, self.switch, len(self.switch.live)
        self.dark = [Signal(wide, name=f"dark_for_{p}") for p in range(paths)]
        self.failed = Signal(paths, name="has_failed")
        for p, dark in enumerate(self.dark):
            m.d.comb += self.failed[p].eq(~q.light[p] & (dark >= self.times["detect"]))
            m.d.sync += dark.eq(Mux(q.light[p], 0, dark + ~dark.all()))
        self.lost = wire(m, (q.live & self.failed).any(), "is_lost")
        self.bad, self.idle, self.unlit = Signal(wide), Signal(wide), Signal(wide)
        self.before, self.closed_before, self.data_before = Signal(paths), Signal(paths), Signal()
        self.over, self.wanted = Signal(), Signal()
        m.d.sync += [self.idle.eq(Mux(q.live.any(), 0, self.idle + 1))]
        m.d.sync += [self.unlit.eq(Mux(q.closed.any(), 0, self.unlit + 1))]
        m.d.sync += [self.before.eq(q.live), self.closed_before.eq(q.closed), self.data_before.eq(q.data)]
        backup = q.entries[q.entry].backup
        m.d.comb += self.over.eq(
            self.lost & (self.bad + 1 >= self.times["decide"]) & ~self.failed.bit_select(q.entries[backup].path, 1)
        )
        m.d.comb += self.wanted.eq(q.request.valid | q.kept.valid)
        self.over_before, self.wanted_before, self.started = Signal(), Signal(), Signal()
        m.d.sync += [self.over_before.eq(self.over), self.wanted_before.eq(self.wanted), self.started.eq(1)]
        m.d.sync += self.bad.eq(Mux(self.lost, self.bad + ~self.bad.all(), 0))

    def _request(self, wide: int) -> None:
        m, q = self.m, self.switch
        self.tag = wire(m, AnyConst(TAG_BITS), "tag")
        self.asked, self.ended, self.age = Signal(), Signal(), Signal(wide)
        self.entry = Signal.like(q.request.entry)
        comes = wire(m, q.request.valid & (q.request.tag == self.tag), "comes")
        m.d.comb += Assume(~(comes & self.asked))
        ends = {stage: q.ends[stage] for stage in STAGES}
        self.told = {s: wire(m, end.valid & (end.tag == self.tag), f"told_{s}") for s, end in ends.items()}
        self.served = any_of(told & ends[stage].served for stage, told in self.told.items())
        m.d.sync += self.age.eq(Mux(comes, 0, self.age + ~self.age.all()))
        m.d.sync += [self.asked.eq(self.asked | comes), self.ended.eq(self.ended | any_of(self.told.values()))]
        with m.If(comes):
            m.d.sync += self.entry.eq(q.request.entry)

    def open(self) -> Value:
        """Whether the request has come, and its end was not told before this clock."""
        return self.asked & ~self.ended

    def may_take(self, entry: Value) -> Value:
        """Whether an entry is the one that was asked for, or its backup."""
        asked = self.entry[: len(self.switch.entry)]
        there = self.entry < len(self.switch.switch_table.entries)
        return there & ((entry == asked) | (entry == self.switch.entries[asked].backup))

    def path(self, entry: Value) -> Value:
        """The path of an entry, as one bit."""
        return Const(1) << self.switch.entries[entry].path


def lemma(w: Watch) -> Iterator[Value]:
    """The controller's registers are what the past says."""
    q, total = w.switch, w.total
    n = len(q.switch_table.entries)
    yield w.left <= total
    yield q.entry < n
    yield (w.left == 0) | (w.left + w.idle == total)
    yield (w.idle == 0) | (w.left + w.idle == total)
    yield w.unlit == Mux(w.idle <= w.times["blackout"], w.idle, 0)
    yield (w.closed_before == 0) | (w.before == 0) | (w.closed_before == w.before)
    for mine, dark in zip(q.dark, w.dark, strict=True):
        yield mine == Mux(dark < w.times["detect"], dark, w.times["detect"])
    yield q.bad == Mux(w.bad < w.times["decide"], w.bad, w.times["decide"] - 1)
    yield (w.bad == 0) | (w.idle == 0)
    yield ~q.kept.valid | (q.kept.entry < n)
    yield from _whereabouts(w)


def _whereabouts(w: Watch) -> Iterator[Value]:
    """The watched request is in one place, and not there for too long."""
    q, total = w.switch, w.total
    owns = q.owner.valid & (q.owner.tag == w.tag)
    kept = q.kept.valid & (q.kept.tag == w.tag)
    yield w.asked | ~w.ended
    yield sum([owns, kept, *w.told.values()]) == w.open()
    yield ~owns | (w.age + w.left <= 2 * total) & w.may_take(q.entry)
    yield ~kept | (w.age + w.left < total) & (q.kept.entry == w.entry)
    yield ~w.told[ARRIVAL] | (w.age == 0)
    yield ~w.told[KEPT] | (w.age <= total)
    yield ~w.told[SWITCH] | (w.age <= w.bound)


def one_path(w: Watch) -> Iterator[Value]:
    """Never two paths closed or live at once; a live path is closed; a word goes to one path at most."""
    q = w.switch
    for port in (q.closed, q.live, q.sent):
        yield (port & (port - 1)[: len(port)]) == 0
    yield (q.live & ~q.closed) == 0


def blackout(w: Watch) -> Iterator[Value]:
    """From one path to another no path is closed for exactly `blackout` clocks and none live for exactly `blackout` +
    `retrain`; a word is sent only if it was offered in a live clock, and to the path that was live then."""
    q, dark = w.switch, w.times["blackout"]
    yield q.closed.any() | (w.unlit < dark)
    yield ~q.closed.any() | (w.closed_before == q.closed) | (w.unlit == dark) | ~w.started
    yield q.live.any() | (w.idle < w.total)
    yield ~q.live.any() | (w.before == q.live) | (w.idle == w.total) | ~w.started
    yield q.sent == Mux(w.data_before, w.before, 0)


def served(w: Watch) -> Iterator[Value]:
    """Every request is told to be served or refused, once, at most 2 (blackout + retrain) + 1 clocks after it came; if
    served, the path of its entry or of the backup was live then; an entry that is not there is refused."""
    yield sum(w.told.values()) <= w.open()
    yield ~w.open() | (w.age <= w.bound)
    yield ~(w.open() & (w.age == w.bound)) | any_of(w.told.values())
    asked = w.entry[: len(w.switch.entry)]
    backup = w.switch.entries[asked].backup
    right = (w.before == w.path(asked)) | (w.before == w.path(backup))
    yield ~w.served | (right & (w.entry == asked) & (asked < len(w.switch.switch_table.entries)))


def failover(w: Watch) -> Iterator[Value]:
    """A live path that has failed for `decide` clocks is left, if the backup's path has not failed; without that, and
    without a request, no path is left."""
    q = w.switch
    yield ~w.over_before | ~q.live.any()
    yield ~(w.before.any() & ~q.live.any()) | w.over_before | w.wanted_before


def one_path_seen(w: Watch) -> Iterator[Value]:
    """Each path live, and a word on each."""
    for p in range(len(w.switch.live)):
        yield w.switch.live[p] & w.switch.sent[p]


def blackout_seen(w: Watch) -> Iterator[Value]:
    """The first live clock after a switch with a blackout and a retrain; a word that is refused."""
    q = w.switch
    yield q.live.any() & ~w.before.any() & w.started & (w.times["blackout"] > 1) & (w.times["retrain"] > 1)
    yield q.data & ~q.live.any() & q.closed.any()


def served_seen(w: Watch) -> Iterator[Value]:
    """An end in each place; the longest wait; another entry's path taken; a switch whose path failed meanwhile."""
    yield from (told & w.switch.ends[stage].served for stage, told in w.told.items())
    yield from (told & ~w.switch.ends[stage].served for stage, told in w.told.items())
    yield any_of(w.told.values()) & (w.age == w.bound) & (w.times["retrain"] > 0)
    yield w.served & (w.before != w.path(w.entry[: len(w.switch.entry)]))


def failover_seen(w: Watch) -> Iterator[Value]:
    """A failover after a wait for both times; one that waits for its backup's light."""
    yield w.over & ~w.wanted & (w.times["detect"] > 1) & (w.times["decide"] > 1)
    yield w.over & ~w.wanted & (w.bad > w.times["decide"])


class Overlapping(OcsSwitch):
    """A mutant that takes data on a path and on its backup."""

    def _open(self, when: Value, path: Value) -> Value:
        return super()._open(when, path) | super()._open(when, self.entries[self.entries[self.entry].backup].path)


class Leaky(OcsSwitch):
    """A mutant that keeps a path open while the switch moves, too."""

    def _open(self, when: Value, path: Value) -> Value:
        return super()._open(Const(1), path)


class Forgetful(OcsSwitch):
    """Does not tell of a request that it drops for a newer one."""

    def _report(self, m: Module, live: Value, go: Value, at_once: Value, there: Value, failed: Value) -> None:
        super()._report(m, live, go, at_once, there, failed)
        with m.If(self.request.valid & ~live):
            m.d.sync += self.ends[KEPT].valid.eq(0)


class SwitchTwin(NamedTuple):
    """A controller that breaks a property; time, by: added to one of its times."""

    kind: type[OcsSwitch] = OcsSwitch
    time: str | None = None
    by: int = 0


class SwitchProperty(NamedTuple):
    """holds: bits that are always high; seen: bits that are high in some trace; lemma: proved first, then assumed."""

    holds: Callable[[Watch], Iterator[Value]]
    seen: Callable[[Watch], Iterator[Value]]
    twins: tuple[SwitchTwin, ...]
    lemma: Callable[[Watch], Iterator[Value]] | None = lemma


UNEVEN = (SwitchTwin(Leaky), SwitchTwin(time="blackout", by=-1), SwitchTwin(time="retrain", by=1))
LATE = (SwitchTwin(time="detect", by=1), SwitchTwin(time="decide", by=-1))
SWITCH_PROPERTIES = {
    "one_path": SwitchProperty(one_path, one_path_seen, (SwitchTwin(Overlapping),)),
    "blackout": SwitchProperty(blackout, blackout_seen, UNEVEN),
    "served": SwitchProperty(served, served_seen, (SwitchTwin(Forgetful), SwitchTwin(time="blackout", by=1))),
    "failover": SwitchProperty(failover, failover_seen, LATE),
}


class SwitchQuestion(Question):
    """One property of a path controller, for the tasks of `pimloom.rtl.formal.proof`.

    With `bits`, times are any of that many bits, and entries any; without, all are the table's. Inputs are free; reset
    is at the start.
    """

    def __init__(self, table: SwitchTable, bits: int, about: str, task: Task, twin: SwitchTwin | None = None) -> None:
        super().__init__(task)
        self.table, self.bits, self.about = table, bits, about
        self.twin = twin or SwitchTwin()
        self.switch = self.twin.kind(table, bits)

    def elaborate(self, platform: object) -> Module:
        m = self.begun()
        m.submodules.switch = q = self.switch
        request = q.request.as_value()
        m.d.comb += [request.eq(AnySeq(len(request))), q.light.eq(AnySeq(len(q.light))), q.data.eq(AnySeq(1))]
        times = self._times(m)
        longest = max(self.table[:4])
        watch = Watch(m, q, times, self.bits or bits_for(longest))
        about = SWITCH_PROPERTIES[self.about]
        self.put(m, watch, about.holds, about.seen, lemma)
        return m

    def _times(self, m: Module) -> dict[str, Value]:
        """The checker's times; the twin's differ."""
        if not self.bits:
            return {name: Const(getattr(self.table, name)) for name in TIMES}
        times: dict[str, Value] = {name: wire(m, AnyConst(self.bits), name) for name in TIMES}
        for name, time in times.items():
            given = time + self.twin.by if name == self.twin.time else time
            m.d.comb += getattr(self.switch, name).eq(given)
            m.d.comb += Assume((given >= (name in ("decide", "blackout"))) & (given < 2**self.bits))
        m.d.comb += [Assume(times[name] != 0) for name in ("decide", "blackout")]
        for row in (self.switch.entries[n] for n in range(len(self.table.entries))):
            m.d.comb += [Value.cast(field).eq(AnyConst(len(Value.cast(field)))) for field in (row.path, row.backup)]
            m.d.comb += Assume((row.path < self.table.paths) & (row.backup < len(self.table.entries)))
        return times


def any_switch() -> SwitchTable:
    """The shape of the controllers that are asked about when times are free: 3 paths, 5 entries."""
    return SwitchTable(0, 1, 1, 0, 3, ((0, 0),) * 5)
