"""Orchestration in plain Python, line by line from the pseudo-code of the project's specification (3.4). Slow.

Nodes are numbers t p + r: node r of ToR t. Blocks are counted in whole ones; ToRs beyond the last whole block of a row
belong to no block and so to the row's last stretch.
"""


def deploy(n: int, p: int) -> list[int]:
    return [t * p + r for r in range(p) for t in range(n // p)]


def dcn_free(seq: list[int], faulty: set[int], m: int, k: int) -> list[list[int]]:
    out: list[list[int]] = []
    cur: list[int] = []
    run = 0
    for x in seq:
        if x in faulty:
            run += 1
            if run >= k:
                cur = []
        else:
            run = 0
            cur.append(x)
            if len(cur) == m:
                out.append(cur)
                cur = []
    return out


class Cluster:
    def __init__(self, n: int, p: int, faulty: set[int], m: int, k: int) -> None:
        self.n, self.p, self.faulty, self.m, self.k = n, p, faulty, m, k
        self.tors = n // p
        healthy_rows = [sum(self.all_healthy(self.row_block(r, b)) for r in range(p)) for b in range(self.tors // m)]
        self.order = sorted(range(self.tors // m), key=lambda b: -healthy_rows[b])

    def row_block(self, r: int, b: int) -> list[int]:
        return [t * self.p + r for t in range(b * self.m, (b + 1) * self.m)]

    def all_healthy(self, nodes: list[int]) -> bool:
        return not any(x in self.faulty for x in nodes)

    def place(self, nc: int) -> list[list[int]]:
        cons = set(self.order[:nc])
        groups: list[list[int]] = []
        for r in range(self.p):
            stretch: list[int] = []
            for b in range(self.tors // self.m):
                if b not in cons:
                    stretch += self.row_block(r, b)
                    continue
                groups += dcn_free(stretch, self.faulty, self.m, self.k)
                stretch = []
                if self.all_healthy(self.row_block(r, b)):
                    groups.append(self.row_block(r, b))
            stretch += [t * self.p + r for t in range(self.tors // self.m * self.m, self.tors)]
            groups += dcn_free(stretch, self.faulty, self.m, self.k)
        return groups

    def orchestrate(self, need: int) -> tuple[int, list[list[int]]] | None:
        if len(self.place(0)) < need:
            return None
        low, high = 0, self.tors // self.m
        while low < high:
            middle = (low + high + 1) // 2
            if len(self.place(middle)) >= need:
                low = middle
            else:
                high = middle - 1

        def aligned(group: list[int]) -> bool:
            first, last = group[0] // self.p, group[-1] // self.p
            return first % self.m == 0 and last - first == self.m - 1

        groups = self.place(low)
        handed_out = [g for g in groups if aligned(g)] + [g for g in groups if not aligned(g)]
        return low, handed_out[:need]

    def cross_tor(self, groups: list[list[int]]) -> tuple[int, int]:
        tuples = sorted(tuple(x // self.p for x in g) for g in groups)
        edges = crossing = 0
        for a, b in zip(tuples, tuples[1:], strict=False):
            if a[0] // self.m != b[0] // self.m:
                continue
            for x, y in zip(a, b, strict=True):
                edges += 1
                crossing += x != y
        return edges, crossing
