"""Collectives on the optical ring: message by message in a naive oracle, with and without a fault."""

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.link import Link
from pimloom.arch.optics import load_optics, switch_table
from pimloom.cycle_sim.link import all_gather_ps, all_reduce_ps, reduce_scatter_ps
from pimloom.cycle_sim.ocs import Light, Request, simulate
from pimloom.cycle_sim.ocs_ring import Operation, Ring, collective, node_ring, recovered, steps_of

PART = load_optics("ocstrx").value
OPERATIONS: tuple[Operation, ...] = ("reduce_scatter", "all_gather", "all_reduce")
MS, US = 10**9, 10**6


def ring(*latency_ps: int, gbps: float = 8) -> Ring:
    """At 8 Gb/s a byte takes 1 ns."""
    return Ring(gbps, latency_ps, (0,) * len(latency_ps))


class Machine:
    """GPUs that send messages in rounds; `value[d][part]`: whose numbers a part's sum at GPU d holds."""

    def __init__(self, latency_ps: tuple[int, ...], n_bytes: int, operation: str) -> None:
        self.latency, self.p = latency_ps, len(latency_ps)
        self.size = [n_bytes // self.p + (i < n_bytes % self.p) for i in range(self.p)]
        scattered = operation == "all_gather"  # then part d + 1's whole sum is at GPU d
        everyone = set(range(self.p))
        self.value = [
            [set(everyone) if scattered and part == d else {d} for part in range(self.p)] for d in range(self.p)
        ]
        self.adds = 0 if scattered else self.p - 1  # steps in which the receiver adds
        self.steps = (self.p - 1) * (2 if operation == "all_reduce" else 1)
        self.before = {0: self.copy()}  # values when a step began everywhere

    def copy(self):
        return [[set(part) for part in row] for row in self.value]

    def go(self, first: int, start: int, stop: int | None = None) -> list[int]:
        """From step `first` on; messages that have not arrived at `stop` are lost. When each step was over."""
        p = self.p
        over = {step: [0, 0] for step in range(first, self.steps)}  # messages there, the latest
        ready, busy = [first] * p, [start] * p  # the step whose message a GPU has; when its link is free
        done = [first] * p  # the step that a GPU sends next
        arrivals = [(start, d, -1, set[int]()) for d in range(p)]
        heapq.heapify(arrivals)
        while arrivals:
            when, d, step, what = heapq.heappop(arrivals)
            if stop is not None and when > stop:
                break
            if step >= 0:
                part = (d - 1 - step) % p
                self.value[d][part] = self.value[d][part] | what if step < self.adds else what
                ready[d] = step + 1
                over[step][0] += 1
                over[step][1] = max(over[step][1], when)
                if over[step][0] == p:
                    self.before[step + 1] = self.copy()
            while done[d] < self.steps and done[d] <= ready[d]:
                part = (d - done[d]) % p
                busy[d] = max(busy[d], when) + self.size[part] * 1000
                late = self.latency[d] if self.size[part] else 0
                heapq.heappush(arrivals, (busy[d] + late, (d + 1) % p, done[d], set(self.value[d][part])))
                done[d] += 1
        return [latest for there, latest in over.values() if there == p]


def complete(machine: Machine, operation: str) -> bool:
    everyone = set(range(machine.p))
    if operation == "reduce_scatter":
        return all(machine.value[d][(d + 1) % machine.p] == everyone for d in range(machine.p))
    return all(part == everyone for row in machine.value for part in row)


latencies = st.lists(st.integers(0, 9), min_size=2, max_size=7).map(lambda found: tuple(1000 * n for n in found))


@settings(max_examples=120)
@given(latencies, st.integers(0, 60), st.sampled_from(OPERATIONS))
def test_a_collective_is_that_of_its_messages(latency_ps, n_bytes, operation):
    n_bytes = max(n_bytes, len(latency_ps))
    machine = Machine(latency_ps, n_bytes, operation)
    ends = machine.go(0, 0)
    assert list(collective(ring(*latency_ps), n_bytes, operation).step_end_ps) == ends
    assert complete(machine, operation)


@given(st.integers(2, 12), st.integers(0, 3000), st.integers(0, 9))
def test_equal_hops_are_those_of_plain_links(gpus, n_bytes, latency):
    link = Link(gbps=3, latency_ns=latency, pj_per_bit=0, topology="ring")
    plain = {"reduce_scatter": reduce_scatter_ps, "all_gather": all_gather_ps, "all_reduce": all_reduce_ps}
    for operation in OPERATIONS:
        found = collective(ring(*[1000 * latency] * gpus, gbps=3), n_bytes, operation)
        assert found.end_ps == plain[operation](link, n_bytes, gpus)


@settings(max_examples=120)
@given(st.data())
def test_a_fault_in_the_middle_is_that_of_its_messages(data):
    before, operation = data.draw(latencies), data.draw(st.sampled_from(OPERATIONS))
    recovery = data.draw(st.sampled_from(["repeat", "restart"]))
    after = data.draw(st.permutations(before).map(tuple) if recovery == "repeat" else latencies)
    n_bytes = data.draw(st.integers(8, 60))
    whole = Machine(before, n_bytes, operation).go(0, 0)
    fault = data.draw(st.integers(0, whole[-1] - 1))
    found = recovered(PART, ring(*before), ring(*after), n_bytes, fault, operation, recovery)

    broken = Machine(before, n_bytes, operation)
    over = broken.go(0, 0, fault)
    resume = fault + sum(PART.failover_ps.values())
    machine = Machine(after, n_bytes, operation)
    step = len(over) if recovery == "repeat" else 0
    if recovery == "repeat":
        machine.value = broken.before[step]
    end = machine.go(step, resume)[-1]
    assert (found.step, found.resume_ps, found.end_ps, found.lost_ps) == (step, resume, end, end - whole[-1])
    assert complete(machine, operation)


def test_a_ring_by_hand():
    """Three GPUs, hops of 0, 5 and 0 ns, 3 bytes: parts of 1 ns. GPU 0's parts and the long hop decide.

    Step 0 ends on GPUs 1, 2, 0 at 1, 6, 1 ns; step 1, sent at 1, 1 and 6 ns, at 2, 7, 7 ns.
    """
    assert collective(ring(0, 5000, 0), 3, "reduce_scatter").step_end_ps == (6000, 7000)


def test_half_of_it_each_way_takes_half_the_time_of_its_bits():
    one = node_ring(PART, 4, [1, 1, 1])
    n_bytes = 2**28
    once, both = (collective(one, n_bytes, both_ways=way).end_ps for way in (False, True))
    wait = 30 * max(one.latency_ps)
    assert once / 2 < both < once / 2 + wait
    uneven = ring(0, 9000, 1000)
    ways = collective(uneven, 6), collective(ring(1000, 9000, 0), 5)
    assert collective(uneven, 11, both_ways=True).end_ps == max(way.end_ps for way in ways)


@pytest.mark.parametrize("gpus_per_node", [2, 4, 8])
@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 16])
def test_nodes_make_one_ring_of_all_gpus(gpus_per_node, nodes):
    distances = [1 + (n % 3 == 1) for n in range(nodes - 1)]
    one = node_ring(PART, gpus_per_node, distances)
    assert one.gpus == nodes * gpus_per_node and one.gbps == 3200
    assert sorted(far for far in one.nodes if far) == sorted(2 * distances)  # there and back
    assert set(zip(one.nodes, one.latency_ps, strict=True)) <= {(0, 200_000), (1, 214_700), (2, 229_400)}


def test_the_way_of_a_ring_goes_there_and_back():
    """GPUs 0 to 3 of node 0; 2, 3 of node 1; 2, 3, 0, 1 of node 2, by its loopback; back over 0, 1 of node 1."""
    assert node_ring(PART, 4, [1, 2]).nodes == (0, 0, 0, 1, 0, 2, 0, 0, 0, 2, 0, 1)


def test_what_a_ring_cannot_be():
    with pytest.raises(ValueError, match="expected at least 2 GPUs per node and distances from 1"):
        node_ring(PART, 1, [1])
    with pytest.raises(ValueError, match="distances from 1"):
        node_ring(PART, 4, [0])
    with pytest.raises(ValueError, match="by the same 3 GPUs only, not by 2"):
        recovered(PART, ring(0, 0, 0), ring(0, 0), 9, 0, recovery="repeat")
    with pytest.raises(ValueError, match="a fault from 0 ps on"):
        recovered(PART, ring(0, 0), ring(0, 0), 9, -1)


def test_an_all_reduce_of_32_gpus_and_a_node_that_dies():
    """8 nodes of 4 GPUs, 64 MiB: 62 steps of 2 MiB at 3.2 Tb/s, 5,242,880 ps, and at most 214,700 ps of a hop."""
    line = node_ring(PART, 4, [1] * 7)
    whole = collective(line, 2**26)
    assert 62 * (5_242_880 + 200_000) <= whole.end_ps <= 62 * (5_242_880 + 214_700)
    bypassed = node_ring(PART, 4, [1, 1, 2, 1, 1, 1, 1])
    found = recovered(PART, line, bypassed, 2**26, 100 * US)
    assert found.down_ps == {
        "detect": 100 * US, "decide": 10 * US, "reconfigure": 80 * US, "retrain": MS, "rebuild": 1000 * MS
    }  # fmt: skip
    assert (found.step, found.resume_ps) == (0, 100 * US + 1_001_190 * US)
    assert found.end_ps - found.resume_ps == collective(bypassed, 2**26).end_ps > whole.end_ps
    assert found.lost_ps == found.end_ps - whole.end_ps
    again = recovered(PART, line, bypassed, 2**26, 100 * US, recovery="repeat")
    assert again.step == 100 * US // (whole.end_ps // 62) and again.lost_ps < found.lost_ps
    assert recovered(PART, line, bypassed, 2**26, whole.end_ps).lost_ps == 0


def test_the_module_and_the_ring_lose_the_same_time():
    """Of the module's own failover, in clocks, and of the ring's, in ps: all but the software's rebuild."""
    table = switch_table(PART)
    entry = list(PART.table).index("external_1")
    (one,) = simulate(table, [Request(0, entry), Light(20_000, 0, False)]).failovers
    down = dict(PART.failover_ps)
    del down["rebuild"]
    assert (one.live_cyc - one.dark_cyc) * PART.clock_ps == sum(down.values())


@pytest.mark.parametrize(
    "place", ["timing.detect", "timing.decide", "timing.reconfigure", "timing.retrain", "timing.rebuild"]
)
def test_every_time_of_a_failover_bites(place):
    name = place.partition(".")[2]
    before = getattr(PART.timing, name).ps
    bent = load_optics("ocstrx", {place: f"{before + 1} ps"}).value
    line = node_ring(PART, 4, [1])
    one, other = (recovered(part, line, line, 2**20, 1, recovery="repeat").end_ps for part in (PART, bent))
    assert other == one + 1


@pytest.mark.parametrize(("place", "value"), [("latency_ns", "200.001"), ("fibre_m", "4"), ("fibre_ns_per_m", "5")])
def test_every_length_of_a_hop_bites(place, value):
    bent = load_optics("ocstrx", {f"hop.{place}": value}).value
    one, other = (collective(node_ring(part, 4, [1, 1]), 2**20).end_ps for part in (PART, bent))
    assert other > one
    rate = load_optics("ocstrx", {"hop.gbps": "3201"}).value
    assert collective(node_ring(rate, 4, [1, 1]), 2**20).end_ps < one


def test_steps():
    assert [steps_of(operation, 5) for operation in OPERATIONS] == [4, 4, 8]
