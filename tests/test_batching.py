"""Pages of the cache, and continuous batching against a naive simulation written from the rules' English."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.mappers.kv import Shape
from pimloom.mappers.kv_pages import KvPages
from pimloom.systems.serving.batching import POLICIES, Rules, decode
from pimloom.systems.serving.outcome import Spread
from pimloom.systems.serving.pace import Pace
from pimloom.systems.serving.workload import Workload
from tests.slow import slow

SEVEN_B = Shape(heads=8, kv_heads=8, head_dim=128, row=512, banks=32, lanes=16, allotted=4096)  # GPT3-7B, TP 4
SMALL = Shape(heads=2, kv_heads=2, head_dim=4, row=8, banks=4, lanes=2, allotted=16)  # 1 row per 4 tokens, 2 per 8


def workload(requests, timed=True):
    arrival, prompt, output = (np.array(column) for column in zip(*requests, strict=True))
    return Workload("test", arrival.astype(float), prompt, output, timed, "")


def cost(tokens):
    return 3 + tokens


def seconds(tokens, channel):
    """An iteration takes as long as its fullest channel."""
    return 0.001 * (1 + max(np.bincount(channel, tokens)))


@pytest.mark.parametrize(("tokens", "released", "own"), [(1, 8 + 128, 2 + 32), (33, 16 + 128, 4 + 32), (513, 392, 98)])
def test_rows_of_a_cache(tokens, released, own):
    """3.7: ceil(width / 512) rows of K for 32 tokens, ceil(width / 32) of V for 512; as released, of the full width."""
    for allotted, rows in ((True, released), (False, own)):
        pages = KvPages(SEVEN_B, 2, 513, 1513, allotted=allotted)
        assert pages.rows(np.array([tokens])).tolist() == [rows]
        assert pages.grow(7, 1, tokens)
        assert pages.free_rows().tolist() == [1000, 1000 - rows]
        held = pages.pages(7)
        assert sorted(held.rows_k + held.rows_v) == list(range(513, 513 + rows)) and held.rows_k[0] == 513
    assert released == SEVEN_B.rows_k(tokens) + SEVEN_B.rows_v(tokens)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=60), st.integers(0, 25))
def test_no_row_is_held_twice_and_all_come_back(moves, most):
    pages = KvPages(SMALL, 2, 10, 10 + most, allotted=False)
    tokens: dict[int, int] = {}
    for request, more in moves:
        channel = request % 2
        if not more:
            if request in tokens:
                del tokens[request]
                pages.release(request)
        else:
            wanted = tokens.get(request, 0) + more
            others = sum(-(-n // 4) + 2 * -(-n // 8) for r, n in tokens.items() if r % 2 == channel and r != request)
            fits = others + -(-wanted // 4) + 2 * -(-wanted // 8) <= most
            assert pages.grow(request, channel, wanted) == fits
            if fits:
                tokens[request] = wanted
        for c in (0, 1):
            held = [pages.pages(r) for r in tokens if r % 2 == c]
            rows = [row for h in held for row in h.rows_k + h.rows_v]
            assert len(set(rows)) == len(rows) == most - pages.free_rows()[c] and set(rows) <= set(range(10, 10 + most))
    for request in tokens:
        assert pages.pages(request).channel == request % 2
        assert len(pages.pages(request).rows_k) == -(-tokens[request] // 4)
        pages.release(request)
    assert pages.free_rows().tolist() == [most, most]


def test_a_request_stays_in_its_channel_and_the_lowest_row_is_given_first():
    pages = KvPages(SMALL, 2, 0, 100, allotted=False)
    assert pages.grow(0, 0, 8) and pages.grow(1, 0, 8)
    with pytest.raises(ValueError, match="request 0 lives in channel 0, not in 1"):
        pages.grow(0, 1, 9)
    pages.release(0)
    assert pages.grow(2, 0, 12) and pages.pages(2).rows_k == [0, 1, 2] and pages.pages(2).rows_v == [3, 8, 9, 10]
    with pytest.raises(KeyError):
        pages.release(0)


def naive(requests, slots, channels, most, longest, policy, room=10**6):
    """The rules, one request at a time; `most` rows of a channel, `room` tokens in all.

    Returns the iterations, first and last tokens' times, and preemptions.
    """
    now, pointer, preemptions = 0.0, 0, 0
    coming = [{"id": i, "at": a, "prompt": p, "left": n, "made": 0} for i, (a, p, n) in enumerate(requests)]
    waiting: list = []
    alive: list = []
    log: list = []
    first: dict = {}
    end: dict = {}

    def context(r):
        return min(r["prompt"] + r["made"], longest)

    def rows(r):
        return -(-context(r) // 4) + 2 * -(-context(r) // 8)

    def used(channel, but=None):
        return sum(r["held"] for r in alive if r["channel"] == channel and r is not but)

    def try_all(some):
        """A channel for every one of them, or None."""
        if sum(map(context, [*alive, *some])) > room:
            return None
        free = [most - used(c) for c in range(channels)]
        load = [sum(cost(context(r)) for r in alive if r["channel"] == c) for c in range(channels)]
        found, at = {}, pointer
        for r in sorted(some, key=lambda r: -context(r)) if policy == "min-load" else some:
            if policy == "min-load":
                order = sorted(range(channels), key=lambda c: (load[c], c))
            else:
                order = [(at + k) % channels for k in range(channels)]
            fitting = [c for c in order if free[c] >= rows(r)]
            if not fitting:
                return None
            c = found[r["id"]] = fitting[0]
            at, free[c], load[c] = (c + 1) % channels, free[c] - rows(r), load[c] + cost(context(r))
        return found, at

    while coming or waiting or alive:
        if not waiting and not alive:
            now = max(now, coming[0]["at"])
        while coming and coming[0]["at"] <= now:
            waiting.append(coming.pop(0))
        yielded = []
        while sum(map(context, alive)) > room:
            yielded.append(alive.pop())
            preemptions += 1
        for r in list(alive):
            while r in alive and used(r["channel"], but=r) + rows(r) > most:
                newest = [x for x in alive if x["channel"] == r["channel"]][-1]
                alive.remove(newest)
                yielded.append(newest)
                preemptions += 1
            if r in alive:
                r["held"] = rows(r)
        waiting = sorted(yielded, key=lambda r: r["joined"]) + waiting
        for n in range(min(slots - len(alive), len(waiting)), 0, -1):
            if answer := try_all(waiting[:n]):
                found, pointer = answer
                for r in waiting[:n]:
                    r |= {"channel": found[r["id"]], "held": rows(r), "joined": (len(log), len(alive))}
                    alive.append(r)
                waiting = waiting[n:]
                break
        tokens, channel = [context(r) for r in alive], [r["channel"] for r in alive]
        log.append((tokens, channel))
        now += seconds(np.array(tokens), np.array(channel))
        for r in list(alive):
            r["made"], r["left"] = r["made"] + 1, r["left"] - 1
            first.setdefault(r["id"], now)
            if not r["left"]:
                assert r["id"] not in end
                end[r["id"]] = now
                alive.remove(r)
    return log, first, end, preemptions


REQUESTS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(1, 20)), min_size=1, max_size=12)


MACHINES = (st.integers(1, 6), st.integers(1, 3), st.integers(12, 22), st.integers(24, 90))


@settings(max_examples=35)
@given(REQUESTS, *MACHINES, st.sampled_from(POLICIES))
def test_batching_is_that_of_the_naive_simulation(drawn, slots, channels, most, room, policy):
    requests = [(at / 1000, prompt, output) for at, prompt, output in sorted(drawn)]
    log, first, end, preemptions = naive(requests, slots, channels, most, 24, policy, room)
    seen = []

    def step(tokens, channel):
        seen.append((tokens.tolist(), channel.tolist()))
        return seconds(tokens, channel)

    pages = KvPages(SMALL, channels, 5, 5 + most, allotted=False, most_tokens=room)
    done = decode(workload(requests), pages, Rules(slots, 24, policy, cost, False), step)
    assert seen == log
    assert done.preemptions == preemptions
    many = range(len(requests))
    assert done.requests["first_token_s"].tolist() == [first[i] for i in many]
    assert done.end_s.tolist() == [end[i] for i in many]
    # conservation: each token of each request once, no iteration above the slots, time rises, all rows are back
    assert done.requests["generated"].tolist() == [output for _, _, output in requests]
    assert done.batch.sum() == sum(output for _, _, output in requests) == len(done.gap_s)
    assert done.batch.max() <= slots and (done.seconds > 0).all() and (done.gap_s > 0).all()
    assert (done.requests["start_s"] >= done.requests["arrival_s"]).all()
    assert (done.end_s >= done.requests["first_token_s"]).all() and done.end_s.max() == done.time_s
    assert (pages.free_rows() == most).all()


def test_the_naive_simulation_meets_full_channels():
    """So that the test above is about preemption, too: two that fit at first and then do not."""
    *_, preemptions = naive([(0.0, 12, 12), (0.0, 12, 12)], 2, 1, 16, 24, "min-load")
    assert preemptions == 1


def test_a_batch_by_hand():
    """Two slots: request 0 has 3 tokens, 1 has 1, 2 joins in the second iteration, 3 comes to an idle machine."""
    requests = [(0.0, 5, 3), (0.0, 9, 1), (0.5, 2, 2), (10.0, 1, 1)]
    seen = []

    def step(tokens, channel):
        seen.append(tokens.tolist())
        return 1.0

    done = decode(
        workload(requests), KvPages(SMALL, 1, 0, 99, allotted=False), Rules(2, 24, POLICIES[0], cost, False), step
    )
    assert seen == [[5, 9], [6, 2], [7, 3], [1]]
    assert done.end_s.tolist() == [3, 1, 3, 11] and done.time_s == 11
    assert done.requests["start_s"].tolist() == [0, 0, 1, 10]
    assert done.tokens_per_s == 7 / 11
    assert done.latency_s == Spread((3 + 1 + 2.5 + 1) / 4, 1.75, float(np.quantile([3, 1, 2.5, 1], 0.99)))
    assert done.wait_s == Spread(0.125, 0, float(np.quantile([0, 0, 0.5, 0], 0.99)))
    assert done.token_time_s == Spread(1, 1, 1)


def test_a_batch_kept_alive():
    """Always `batch` requests, of contexts up to the cap; what began in the warm-up has no latency."""
    rows = workload([(0, 1, 1), (0, 30, 3), (0, 2, 7)], timed=False)
    rules, pages = Rules(8, 24, "round-robin", cost, True, 5), KvPages(SMALL, 4, 0, 200, allotted=False)
    seen = []

    def step(tokens, channel):
        seen.append((tokens.tolist(), channel.tolist()))
        return 0.25

    done = decode(rows, pages, rules, step, warm_up=50, iterations=30)
    assert done.batch.tolist() == [8] * 30 and done.time_s == 7.5 and len(done.simulated) == len(seen) == 30
    assert max(max(tokens) for tokens, _ in seen) == 24
    began = np.isfinite(done.requests["start_s"])
    assert 0 < began.sum() < len(began) and done.requests["request"].min() > 0
    served = done.end_s[began] - done.requests["start_s"][began]
    output = done.requests["output"][began]
    assert np.isfinite(served).any() and (np.isnan(served) | (served == output * 0.25)).all()
    again = decode(rows, KvPages(SMALL, 4, 0, 200, allotted=False), rules, step, warm_up=50, iterations=30)
    assert seen[:30] == seen[30:] and again.requests.tobytes() == done.requests.tobytes()


def test_every_fourth_iteration():
    """Seconds that are linear in the tokens are exact while contexts grow: each iteration that is read counts once."""
    requests = [(0.0, 1 + i % 5, 20 + i) for i in range(20)]
    asked = []

    def step(tokens, channel):
        asked.append((len(tokens), int(tokens.sum())))
        return 0.5 + 0.01 * tokens.sum()

    rules, pages = Rules(20, 10**6, POLICIES[0], cost, False), KvPages(SMALL, 4, 0, 500, allotted=False)
    exact = decode(workload(requests), pages, rules, step)
    assert exact.simulated.all() and len(asked) == len(exact.seconds)
    asked.clear()
    some = decode(workload(requests), pages, rules, step, every=4)
    assert np.flatnonzero(some.simulated[:20]).tolist() == [0, 1, 3, 7, 11, 15, 19]
    assert len(asked) == some.simulated.sum() < 0.6 * len(exact.seconds)
    batches = some.batch.tolist()
    for i in np.flatnonzero(~some.simulated):
        last = max(np.flatnonzero(some.simulated[:i]))
        assert abs(batches[i] - batches[last]) <= 0.1 * batches[last]
    assert some.seconds[:20] == pytest.approx(exact.seconds[:20], rel=1e-12)


def test_reading_between_two_totals():
    pace = Pace(lambda tokens, channel: float(tokens.sum()) ** 2, 2)
    channel = np.zeros(2, int)
    found = [pace(np.array([total // 2, total // 2]), channel) for total in (10, 20, 14, 40, 4, 60, 80)]
    assert found == [100, 400, 100 + 300 * 0.4, 1600, 0, 3600, 3600 + 20 * 100]
    assert pace.simulated == [True, True, False, True, False, True, False]
    assert sum(pace.weights) == pytest.approx(7)
    assert pace(np.array([4, 4, 4]), np.zeros(3, int)) == 144 and pace.simulated[-1]


def test_a_line_goes_on_no_further_than_its_points_are_apart():
    pace = Pace(lambda tokens, channel: float(tokens.sum()) ** 2, 4)
    totals = (10, 12, 100, 100)
    found = [pace(np.array([total - 1, 1]), np.zeros(2, int)) for total in totals]
    assert found[:3] == [100, 144, 188] and found[3] == 100**2


def paced(times, totals, every, batches=None):
    """What `Pace` tells as error, and the true one, of iterations that take these times."""
    now = iter(times)
    pace, taken = Pace(lambda tokens, channel: time, every), 0.0
    for n, total in enumerate(totals):
        batch = batches[n] if batches else 2
        time = next(now)
        taken += pace(np.array([total - batch + 1] + [1] * (batch - 1)), np.zeros(batch, int))
    return pace.error, taken / sum(times) - 1


def test_error_is_told_by_what_was_simulated_and_had_been_read_till_then():
    """Totals 10, 20, 16, 14, each twice: the second is read as 100, the third and fourth between others."""
    totals = [total for total in (10, 20, 16, 14) for _ in range(2)]
    off = np.array([100 - 400, 100 + 300 * 0.6 - 256, 100 + 156 * 4 / 6 - 196])
    drift, spread = off.sum() / 2, np.sqrt(off.var(ddof=1) * 3)
    wanted = np.hypot(drift, spread) / (3 * 100 + 400 + 280 + 256 + 204 + 196)
    assert paced([float(total) ** 2 for total in totals], totals, 2)[0] == pytest.approx(wanted, rel=1e-12)


def test_error_of_all_is_zero_and_of_too_few_unknown():
    every, few = (Pace(lambda tokens, channel: float(tokens.sum()), n) for n in (1, 100))
    for total in range(10, 30, 2):
        for pace in (every, few):
            pace(np.array([total // 2, total // 2]), np.zeros(2, int))
    assert every.error == 0 and few.error is None


def test_error_of_a_drift():
    """Contexts that only grow, and times that bend: what is read on a line is too short."""
    totals = list(range(1000, 1800, 2))
    for every in (4, 16):
        told, true = paced([0.01 * total**1.5 for total in totals], totals, every)
        assert 0 < -true < told < 5 * -true < 1e-3


def test_error_of_a_batch_that_often_changes():
    """Those that are simulated as the batch has changed tell nothing of a long stretch behind them."""
    batches = [4, 5] * 70 + [8] * 400
    totals = [5000 + 10 * n for n in range(len(batches))]
    told, true = paced([float(total) ** 2 for total in totals], totals, 50, batches)
    assert abs(true) / 2 < told < 3 * abs(true)


@pytest.mark.parametrize(("every", "most"), [(2, 1.6), slow(4, 1.35), (16, 1.25)])
def test_error_is_that_of_chance(every, most):
    """Times that vary by chance around a line in the total of tokens."""
    rng, off = np.random.default_rng(5), []
    for _ in range(25):
        totals = (rng.integers(900, 1100, 400) * 2).tolist()
        told, true = paced((1000 + 0.1 * np.array(totals) + rng.normal(0, 20, 400)).tolist(), totals, every)
        off.append(true / told)
    assert 0.8 < np.sqrt(np.mean(np.square(off))) < most


def test_what_does_not_fit():
    requests = workload([(0.0, 3, 1), (0.0, 17, 4)])
    with pytest.raises(UserError, match=r"test: request 1 of 20 tokens needs 11 rows of a channel, which has 10 for"):
        decode(requests, KvPages(SMALL, 2, 0, 10, allotted=False), Rules(2, 24, POLICIES[0], cost, False), seconds)
    rules = Rules(9, 24, POLICIES[0], cost, True)
    with pytest.raises(
        UserError, match=r"--batch 9: the caches need 27 rows of the 22 of all channels; lower --batch or share"
    ):
        kept = workload([(0.0, 3, 1)], timed=False)
        decode(kept, KvPages(SMALL, 2, 0, 11, allotted=False), rules, seconds, iterations=1)
    # 9 x 3 of 28 rows, but only 4 of 14 rows each
    with pytest.raises(UserError, match=r"--batch 9: the caches need 27 rows of the 28 of all channels"):
        decode(kept, KvPages(SMALL, 2, 0, 14, allotted=False), rules, seconds, iterations=1)
