"""When the rules of a device let a command issue, looked up in the whole history of commands."""

RANK, BANK_GROUP, BANK = 2, 3, 4  # levels
WIDE = ("REFab", "PREab", "SRE", "SRX")  # they act on a rank


class History:
    """All commands so far, and what the rules make of them. scope: level at which each command acts, else see WIDE."""

    def __init__(self, rules, names, size, scope=None):
        self.span = [size[BANK] // n for n in size]  # banks of a node of each level
        levels = scope or [RANK if name in WIDE else BANK for name in names]
        self.width = {name: self.span[level] for name, level in zip(names, levels, strict=True)}
        self.inside = [n // m for n, m in zip(size, [1, *size], strict=False)]  # nodes of each level below one parent
        self.past: dict = {name: [] for name in names}  # (clock, first bank, last bank)
        self.rules = {
            name: [(*r[:4], [names[c] for c in r.after]) for r in rules if opcode in r.before]
            for opcode, name in enumerate(names)
        }
        self.known = {}  # answers, until another command comes

    def banks(self, name, bank):
        """Banks that a command acts on."""
        first = bank // self.width[name] * self.width[name]
        return range(first, first + self.width[name])

    def add(self, clock, name, bank):
        banks = self.banks(name, bank)
        self.past[name].append((clock, banks[0], banks[-1]))
        self.known.clear()

    def nth_latest(self, names, level, node, n):
        """Clock of the n-th latest of these commands at a node, None if there were fewer."""
        low, high = node * self.span[level], (node + 1) * self.span[level] - 1
        found = []
        for name in names:
            here = (clock for clock, first, last in reversed(self.past[name]) if first <= high and last >= low)
            found += [clock for clock, _ in zip(here, range(n), strict=False)]
        return sorted(found)[-n] if len(found) >= n else None

    def bound_nodes(self, level, sibling, banks):
        """Nodes at which a rule binds a command that acts on these banks."""
        own = {bank // self.span[level] for bank in banks}
        if not sibling:
            return own
        inside = self.inside[level]
        return {n for m in own for n in range(m // inside * inside, (m // inside + 1) * inside) if n != m}

    def legal_from(self, name, bank):
        """First clock in which the rules let a command issue."""
        if (name, bank) not in self.known:
            first = 0
            for level, window, wait, sibling, after in self.rules[name]:
                for node in self.bound_nodes(level, sibling, self.banks(name, bank)):
                    clock = self.nth_latest(after, level, node, window)
                    if clock is not None:
                        first = max(first, clock + wait)
            self.known[name, bank] = first
        return self.known[name, bank]
