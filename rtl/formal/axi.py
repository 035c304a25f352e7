# amaranth: UnusedElaboratable=no
"""What is proved of the AXI4-Lite registers: responses stand, each request has one, and commands go once and in order.

A host and a sequencer that do anything; the checker counts transfers and keeps the words of the map by itself.
"""

from collections.abc import Iterator

from amaranth.asserts import AnySeq
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In

from pimloom.arch.table import Table
from pimloom.rtl.command import COORDINATES, any_of
from pimloom.rtl.controller.moments import NEVER_SENT, without_moments
from pimloom.rtl.controller.registers import BYTE, OKAY, PLACES, READ_ONLY, SLVERR, AxiRegisters, Register
from pimloom.rtl.formal.checker import wire
from pimloom.rtl.formal.question import Claim

DEPTH = 3  # of the queue that is asked about
WORDS = (Register.PLACE, Register.ROW, Register.COLUMN, Register.COUNT)  # of a command


class Stands:
    """A response channel. stood, before: whether a response stood in the clock before and was not taken, and which."""

    def __init__(self, m: Module, valid: Value, ready: Value, payload: Value, name: str) -> None:
        self.valid, self.taken = valid, wire(m, valid & ready, f"{name}_taken")
        self.payload, self.stood = payload, Signal(name=f"{name}_stood")
        self.before = Signal(len(payload), name=f"{name}_before")
        self.fresh = wire(m, valid & ~self.stood, f"{name}_fresh")
        m.d.sync += [self.stood.eq(valid & ~ready), self.before.eq(payload)]


class Host:
    """The registers between free inputs. addresses, words, reads: requests that were taken and whose response was not;
    address, data, strobe: of the write that was taken last; asked: address of the read; now: the words of a command;
    held: commands in the queue in this clock, held_before in the one before; fitted, cleared: inputs in that one."""

    def __init__(self, m: Module, block: AxiRegisters) -> None:
        self.m, self.block = m, block
        m.submodules.block = block
        for _, member, value in block.signature.flatten(block):
            if member.flow is In:
                port = Value.cast(value)
                m.d.comb += port.eq(AnySeq(len(port)))
        x = block
        self.b = Stands(m, x.s_axi_bvalid, x.s_axi_bready, x.s_axi_bresp, "b")
        self.r = Stands(m, x.s_axi_rvalid, x.s_axi_rready, Cat(x.s_axi_rdata, x.s_axi_rresp), "r")
        self.taken = {
            name: wire(m, getattr(x, f"s_axi_{name}valid") & getattr(x, f"s_axi_{name}ready"), f"{name}_taken")
            for name in ("aw", "w", "ar")
        }
        self.addresses, self.words, self.reads = Signal(3), Signal(3), Signal(3)
        ends = {"aw": self.b, "w": self.b, "ar": self.r}
        for count, name in ((self.addresses, "aw"), (self.words, "w"), (self.reads, "ar")):
            m.d.sync += count.eq(count + self.taken[name] - ends[name].taken)
        self.due = Signal()
        both = (self.addresses > self.b.valid) & (self.words > self.b.valid)
        m.d.sync += self.due.eq(both & (~self.b.valid | x.s_axi_bready))
        self._remember()
        self._words()
        self._commands()

    def _remember(self) -> None:
        m, x = self.m, self.block
        self.address, self.asked = Signal.like(x.s_axi_awaddr), Signal.like(x.s_axi_araddr)
        self.data, self.strobe = Signal.like(x.s_axi_wdata), Signal.like(x.s_axi_wstrb)
        with m.If(self.taken["aw"]):
            m.d.sync += self.address.eq(x.s_axi_awaddr)
        with m.If(self.taken["w"]):
            m.d.sync += [self.data.eq(x.s_axi_wdata), self.strobe.eq(x.s_axi_wstrb)]
        with m.If(self.taken["ar"]):
            m.d.sync += self.asked.eq(x.s_axi_araddr)

    def _words(self) -> None:
        """The words of a command behind the write that is answered in this clock."""
        m = self.m
        self.registers = [register for register in WORDS if register in self.block.written]
        mask = Cat(Mux(self.strobe[i], 0xFF, 0)[:BYTE] for i in range(len(self.strobe)))
        self.kept, self.now = list[Signal](), list[Signal]()
        for register in self.registers:
            mine, first = self.address >> 2 == register, int(register is Register.COUNT)
            kept = Signal(len(mask), name=f"{register.name}_kept", init=first)
            now = wire(m, Mux(self.b.fresh & mine, kept & ~mask | self.data & mask, kept), f"{register.name}_now")
            m.d.sync += kept.eq(now)
            self.kept.append(kept)
            self.now.append(now)
        self.before = [Signal(len(now), name=f"before_{i}") for i, now in enumerate(self.now)]
        m.d.sync += [before.eq(now) for before, now in zip(self.before, self.now, strict=True)]

    def _commands(self) -> None:
        """The queue as responses tell it, and one command of it, whichever, on its way."""
        m, x, rules = self.m, self.block, self.block.table.rules
        place, row, column = self.now[:3]
        fan = {name: int(rules.size[i + 1] // rules.size[i]) for i, name in enumerate(COORDINATES)}
        fields = [place[BYTE * i : BYTE * i + BYTE] for i in range(len(PLACES))]
        known = [self.data[:BYTE] < len(x.table.names), row < rules.rows, column < rules.columns]
        known += [field < fan[name] for name, field in zip(PLACES, fields, strict=True)]
        known += [self.data[:BYTE] != moment for moment in x.table.opcodes(NEVER_SENT)]
        for count in self.now[3:]:
            known.append((self.data[:BYTE] != x.moments.gemv) | (count != 0) & (count <= x.most))
        self.fitted, self.cleared = Signal(), Signal()
        m.d.sync += [self.fitted.eq(x.fits), self.cleared.eq(x.clear)]
        known.append(self.fitted)
        self.asks = wire(m, (self.address >> 2 == Register.COMMAND) & self.strobe[0], "asks")
        self.known = wire(m, ~any_of(~bit for bit in known), "known")
        self.pushed = wire(m, self.b.fresh & self.asks & (x.s_axi_bresp == OKAY), "pushed")
        self.held, held = Signal(4), Signal(4)
        self.held_before = Signal(4)
        left = x.o.valid & x.o.ready
        m.d.comb += self.held.eq(held + self.pushed)
        m.d.sync += [held.eq(Mux(x.clear, 0, self.held - left)), self.held_before.eq(self.held)]
        command = Signal(x.layout, name="command_of_words")
        values = dict(zip(PLACES, fields, strict=True)) | {"cmd": self.data, "row": row, "col": column}
        m.d.comb += [command.command[name].eq(value) for name, value in values.items()]
        m.d.comb += [command.count.eq(count) for count in self.now[3:]]
        follows, follow = Signal(name="follows"), wire(m, AnySeq(1), "follow")
        ahead, followed = Signal(4), Signal(len(command.as_value()))
        begins = self.pushed & follow & ~follows
        self.follows = wire(m, follows | begins, "follows_now")
        self.ahead = wire(m, Mux(begins, self.held - 1, ahead), "ahead_now")
        self.followed = wire(m, Mux(begins, command.as_value(), followed), "followed_now")
        self.goes = wire(m, self.follows & (self.ahead == 0), "goes")
        m.d.sync += [follows.eq(self.follows & ~(self.goes & left) & ~x.clear), ahead.eq(self.ahead - left)]
        m.d.sync += followed.eq(self.followed)


def responses(h: Host) -> Iterator[Value]:
    """A response stands as it is until it is taken."""
    for channel in (h.b, h.r):
        yield ~channel.stood | channel.valid & (channel.payload == channel.before)


def responses_seen(h: Host) -> Iterator[Value]:
    """A response of either kind that stood, and is taken."""
    yield h.b.stood & h.b.taken
    yield h.r.stood & h.r.taken


def writes(h: Host) -> Iterator[Value]:
    """A response comes only behind its address and its data; at most one of each waits behind a response that stands,
    and else they are taken at once; where both are there, and no response stands, one does in the next clock."""
    x = h.block
    yield ~h.b.valid | (h.addresses != 0) & (h.words != 0)
    yield (h.addresses <= 2) & (h.words <= 2)
    yield x.s_axi_awready == (h.addresses == h.b.valid)
    yield x.s_axi_wready == (h.words == h.b.valid)
    yield ~h.due | h.b.valid


def writes_lemma(h: Host) -> Iterator[Value]:
    """What the checker counts, in the block's registers."""
    x = h.block
    yield (h.addresses == x.address_waits + x.answered) & (h.words == x.data_waits + x.answered)
    yield ~h.due | x.answered
    yield ~h.b.stood | x.answered


def writes_seen(h: Host) -> Iterator[Value]:
    """Data that is there before its address, and the other way round; two writes under way."""
    yield (h.words > h.addresses) & h.taken["aw"]
    yield (h.addresses > h.words) & h.taken["w"]
    yield (h.addresses == 2) & (h.words == 2)


def reads(h: Host) -> Iterator[Value]:
    """A read is answered in the next clock, and no other is taken until its response is."""
    yield h.r.valid == (h.reads == 1)
    yield h.reads <= 1
    yield h.block.s_axi_arready == (h.reads == 0)


def reads_seen(h: Host) -> Iterator[Value]:
    """A second read, right behind the first one's response."""
    yield h.taken["ar"] & ~h.r.valid & (h.asked != 0)


def answers(h: Host) -> Iterator[Value]:
    """SLVERR answers what is outside the map, a write to a word that can only be read, a command that the table does
    not have, a place that the channel does not have or rows that will not be as it needs them, and a command while the
    queue is full or dropped; OKAY all else. A read of PLACE, ROW, COLUMN or COUNT brings what was written."""
    x = h.block
    word = h.address >> 2
    refused = (word >= len(Register)) | any_of(word == read_only for read_only in READ_ONLY)
    refused |= h.asks & (~h.known | (h.held_before == x.depth) | h.cleared)
    yield ~h.b.fresh | (x.s_axi_bresp == Mux(refused, SLVERR, OKAY))
    asked = h.asked >> 2
    yield ~h.r.fresh | (x.s_axi_rresp == Mux(asked >= len(Register), SLVERR, OKAY))
    for register, before in zip(h.registers, h.before, strict=True):
        yield ~h.r.fresh | (asked != register) | (x.s_axi_rdata == before)


def answers_seen(h: Host) -> Iterator[Value]:
    """A command that is refused because the queue is full, one that the table has not, and a word that was written."""
    x = h.block
    refused = h.b.fresh & (x.s_axi_bresp == SLVERR) & h.asks
    yield refused & h.known
    yield refused & ~h.known & (h.held_before != x.depth)
    yield h.r.fresh & (h.asked >> 2 == Register.ROW) & (x.s_axi_rdata != 0)


def commands(h: Host) -> Iterator[Value]:
    """A command whose response is OKAY is offered from the clock of its response on, once, as the words of the map had
    it, behind all that came before it; no other is. In a clock in which the queue is dropped none is, nor later."""
    x = h.block
    yield x.o.valid == ((h.held != 0) & ~x.clear)
    yield ~h.goes | x.clear | x.o.valid & (x.o.payload.as_value() == h.followed)


def commands_seen(h: Host) -> Iterator[Value]:
    """The followed command leaves a full queue; one comes as another leaves."""
    yield h.goes & h.block.o.ready & (h.held == h.block.depth)
    yield h.pushed & h.block.o.ready & (h.held > 1)
    yield h.block.clear & (h.held > 1)


def map_lemma(h: Host) -> Iterator[Value]:
    """The write that acts is the one that was taken last; the checker's words and queue are the block's."""
    x = h.block
    yield from writes_lemma(h)
    yield ~x.address_waits | (h.address == x.address)
    yield ~x.data_waits | (h.data == x.data) & (h.strobe == x.strobe)
    yield (h.reads == x.read) & (~h.r.stood | x.read)
    for register, now in zip(h.registers, h.now, strict=True):
        yield now == x.written[register]
    yield (h.held == x.queue.length) & (x.queue.length <= x.depth) & (~h.pushed | (h.held != 0))
    yield ~h.follows | (h.ahead < h.held)
    for i, entry in enumerate(x.queue.entries):
        yield ~h.follows | (h.ahead != i) | (entry.as_value() == h.followed)


class Restless(AxiRegisters):
    """A mutant that withdraws a response before the host accepts it."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        with m.If(~self.acts):
            m.d.sync += self.answered.eq(0)
        return m


def mutant(name: str, wrong: str, *signals: str, to: int = 1) -> type[AxiRegisters]:
    """Registers of which some signals are always `to`. wrong: what they do then."""

    def elaborate(self: AxiRegisters, platform: object) -> Module:
        m = AxiRegisters.elaborate(self, platform)
        for signal in signals:
            m.d.comb += getattr(self, signal).eq(to)
        return m

    return type(name, (AxiRegisters,), {"elaborate": elaborate, "__doc__": wrong, "__module__": __name__})


Deaf = mutant("Deaf", "Takes an address while another waits, which is lost.", "s_axi_awready")
Greedy = mutant("Greedy", "Takes a read while a response stands.", "s_axi_arready")
Lenient = mutant("Lenient", "Knows every command and place.", "unknown", to=0)
Mirrored = mutant("Mirrored", "Its map is there again at every higher address.", "unmapped", "unmapped_read", to=0)
Overflowing = mutant("Overflowing", "Says OKAY to a command that its queue has no room for.", "full", to=0)
Leaky = mutant("Leaky", "Commands leave the queue whether they are taken or not.", "leaves")


class Eager(AxiRegisters):
    """A mutant that answers the address of a write without its data."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += self.acts.eq(self.address_waits & (~self.answered | self.s_axi_bready))
        return m


class Stuttering(AxiRegisters):
    """A command stays now and then when it was taken."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += self.leaves.eq(self.o.ready & AnySeq(1))
        return m


class Clinging(AxiRegisters):
    """Keeps the commands that are dropped."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        with m.If(self.clear):
            m.d.sync += self.queue.length.eq(self.queue.length)
        return m


def setup(table: Table, m: Module, twin: type[AxiRegisters] | None, bits: int) -> Host:
    """The registers, or a mutant, of a table."""
    return Host(m, (twin or AxiRegisters)(without_moments(table), DEPTH))


CLAIMS = {
    "responses": Claim(responses, responses_seen, (Restless, Greedy)),
    "writes": Claim(writes, writes_seen, (Eager, Deaf, Restless), writes_lemma),
    "reads": Claim(reads, reads_seen, (Greedy,)),
    "answers": Claim(answers, answers_seen, (Lenient, Mirrored, Overflowing), map_lemma),
    "commands": Claim(commands, commands_seen, (Overflowing, Leaky, Stuttering, Clinging), map_lemma),
}
