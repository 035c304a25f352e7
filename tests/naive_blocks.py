"""Blocks of the NPU's memory in plain Python: which lines one touches, and in which order a hash set holds them.

Lines go to the channels in turn; in a channel, to the columns of a row, then to the banks, then to the next row.
"""

LINE, COLUMNS, BANKS = 64, 16, 32
M64 = 2**64 - 1


def touched(at, size, shift, wrap):
    """(lines in the order in which a block that begins at byte `at` first touches them, where the next one begins).

    shift: bytes of an element, where the place of an element is taken only when it has gone on by one; 0: it is not.
    """
    if not shift:
        return [i % (wrap // LINE) for i in range(at // LINE, (at + size - 1) // LINE + 1)], (at + size) % wrap
    found: list[int] = []
    for _ in range(size // shift):
        at += shift
        if at >= wrap:
            at = 0
        if not found or found[-1] != at // LINE:
            found.append(at // LINE)
    return found, at


def place(line, channels):
    """(channel, bank, row, column) of a line."""
    line, channel = divmod(line, channels)
    line, column = divmod(line, COLUMNS)
    row, bank = divmod(line, BANKS)
    return channel, bank, row, column


def mixed(line, channels):
    """The hash of a line's address, in which channel and column have changed places."""
    rest, channel = divmod(line, channels)
    above, column = divmod(rest, COLUMNS)
    x = ((above * channels + channel) * COLUMNS + column) * LINE
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = ((x ^ x >> 33) * factor) & M64
    return x ^ x >> 33


def hashed(lines, channels):
    """The lines in the order of a robin_hood set into which they were put one after the other; each once."""
    table = RobinHood()
    for line in dict.fromkeys(lines):
        table.add(mixed(line, channels), line)
    return table.items()


def by_home(lines, channels):
    """The same order where no item is far from home: by home, then by the low bits of the hash, the highest first."""
    places = 8
    while places * 80 // 100 < len(lines):
        places *= 2
    return sorted(lines, key=lambda line: (mixed(line, channels) // 32 % places, -(mixed(line, channels) % 32)))


class RobinHood:
    """Items at numbered places; each with a byte: how far it is from home, in units, and what is left of 5 hash bits.

    A newcomer goes behind all those, from its home on, whose byte is not less than its own would be there; the others
    move on by a place. Where a further unit would take a byte beyond 255, before the next item comes the unit is halved
    and the hash bits lose their last. Where four fifths of the places are taken, there are twice as many for the next.
    """

    def __init__(self):
        self.clear(8)

    def clear(self, places):
        self.places, self.unit, self.dropped, self.tight = places, 32, 0, False
        self.at = {}  # place: (byte, hash, item)

    def items(self):
        return [self.at[i][2] for i in sorted(self.at)]

    def add(self, key, item):
        while self.tight or len(self.at) >= self.places * 80 // 100:
            if len(self.at) < self.places * 80 // 100:
                self.halve()
                continue
            old = [self.at[i] for i in sorted(self.at)]
            self.clear(2 * self.places)
            for _, *moved in old:
                if self.tight:
                    self.halve()
                self.put(*moved)
        self.put(key, item)

    def halve(self):
        self.unit //= 2
        self.dropped += 1
        self.tight = False
        self.at = {i: (byte // 2, *rest) for i, (byte, *rest) in self.at.items()}

    def put(self, key, item):
        i, byte = key // 32 % self.places, self.unit + (key % 32 >> self.dropped)
        while i in self.at and self.at[i][0] >= byte:
            i, byte = i + 1, byte + self.unit
        coming: tuple[int, int, object] | None = (byte, key, item)
        while coming:
            assert coming[0] < 256, "a byte"
            self.tight |= coming[0] + self.unit > 255
            self.at[i], coming = coming, self.at.get(i)
            coming = coming and (coming[0] + self.unit, *coming[1:])
            i += 1
