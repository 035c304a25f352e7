"""What an iteration takes: a closed form in whole ticks, or costs read between knots as `pricing.grid` reads them."""

from typing import NamedTuple

import numpy as np

from pimloom.cycle_sim.compiled.kernel import bare, rare
from pimloom.systems.serving.kernels.fields import JOULES, MIXED, ONLY_DECODE, ONLY_PROMPT

# form[…]: ticks = base + max(least, each x tokens) + the sum of (times x value + more) // by over three values, each of
# a request with n new tokens behind p: n (p + n), context p + n, and pairs n p + n (n + 1) / 2
BASE, LEAST, EACH, PRODUCTS, CONTEXT, PAIRS, N_FORM = 0, 1, 2, 3, 6, 9, 12
TIMES, MORE, BY = range(3)

# grid[…]: whether it prices, and prompts, too; as in `Grid`: its limits, with caches that are shared `FEW`, else 0, and
# how many knots there are of each axis
PRICES, WITH_PROMPTS, MOST_REQUESTS, ROOM, POSITIONS, BUDGET, LONGEST, SIDE, KNOTS = range(9)
N_GRID = KNOTS + 4
REQUESTS, CONTEXTS, ROWS, ATTENDED = range(4)  # axes: knots[axis, …]
DECODE, PROMPT, ENDING, PAIR, TURNS, EMPTY = 0, 1, 2, 3, 4, -1  # kinds of a knot; TURNS: its time is `Grid.turns`


class Prices(NamedTuple):
    """form, grid: see above; knots[axis, i], rising; keys[k] = (kind, requests or rows, context) of the knot whose
    costs are costs[k], in a table with open addresses; tops[b]: as `Grid.top`; cost: of the iteration that forms, as
    `pricing.costs` has it; part: room for a part of it; scale[kind]: times of iterations of a kind count so much."""

    form: np.ndarray
    grid: np.ndarray
    knots: np.ndarray
    keys: np.ndarray
    costs: np.ndarray
    tops: np.ndarray
    cost: np.ndarray
    part: np.ndarray
    scale: np.ndarray


@bare
def closed(form, new, products, context, pairs):
    """Ticks of an iteration with such sums."""
    ticks = form[BASE] + max(form[LEAST], form[EACH] * new)
    ticks += (form[PRODUCTS + TIMES] * products + form[PRODUCTS + MORE]) // form[PRODUCTS + BY]
    ticks += (form[CONTEXT + TIMES] * context + form[CONTEXT + MORE]) // form[CONTEXT + BY]
    return ticks + (form[PAIRS + TIMES] * pairs + form[PAIRS + MORE]) // form[PAIRS + BY]


@bare
def place(keys, kind, n, context):
    """Where a knot is, or would be."""
    mask = np.uint64(len(keys) - 1)
    mixed = (np.uint64(n) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(context) * np.uint64(0xC2B2AE3D27D4EB4F))
    at = ((mixed >> np.uint64(29)) + np.uint64(kind)) & mask
    while keys[at, 0] != EMPTY and (keys[at, 0] != kind or keys[at, 1] != n or keys[at, 2] != context):
        at = (at + np.uint64(1)) & mask
    return at


@bare
def _above(prices, axis, value):
    """Number of the first knot that is not below."""
    knots, low, high = prices.knots, 0, prices.grid[KNOTS + axis] - 1
    while low < high:
        middle = (low + high) // 2
        if knots[axis, middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@bare
def _below(prices, axis, at, value):
    """The knot below, or that one itself."""
    knots = prices.knots
    return knots[axis, at] if at == 0 or knots[axis, at] == value else knots[axis, at - 1]


@bare
def _between(value, low, high):
    return (value - low) / (high - low) if high > low else 0.0


@bare
def _add(prices, into, weight, kind, n, context):
    """A knot's costs, with that weight; False if it is not known."""
    if weight == 0.0:
        return True
    at = place(prices.keys, kind, n, context)
    if prices.keys[at, 0] == EMPTY:
        return False
    for i in range(len(into)):
        into[i] += weight * prices.costs[at, i]
    return True


@bare
def _corners(prices, into, kind, at_n, low_n, high_n, at_c, low_c, high_c):
    for i in range(len(into)):
        into[i] = 0.0
    found = _add(prices, into, (1.0 - at_n) * (1.0 - at_c), kind, low_n, low_c)
    found = found and _add(prices, into, at_n * (1.0 - at_c), kind, high_n, low_c)
    found = found and _add(prices, into, (1.0 - at_n) * at_c, kind, low_n, high_c)
    return found and _add(prices, into, at_n * at_c, kind, high_n, high_c)


@rare
def _decode(prices, into, requests, context):
    """As `Grid.decode`; False if a knot is not known."""
    grid, knots = prices.grid, prices.knots
    above_b, above_c = _above(prices, REQUESTS, requests), _above(prices, CONTEXTS, context)
    low_b, low_c = _below(prices, REQUESTS, above_b, requests), _below(prices, CONTEXTS, above_c, context)
    high_b, beside = min(knots[REQUESTS, above_b], grid[MOST_REQUESTS]), low_b
    if grid[SIDE]:
        beside = min(low_b, grid[SIDE])
    else:
        high_b = min(high_b, grid[ROOM] // low_c)
    high_b = max(high_b, requests)
    high_c = max(min(knots[CONTEXTS, above_c], grid[LONGEST], grid[ROOM] // beside), np.int64(np.ceil(context)))
    at_b, at_c = _between(requests, low_b, high_b), _between(context, low_c, high_c)
    return _corners(prices, into, DECODE, at_b, low_b, high_b, at_c, low_c, high_c)


@rare
def _prompt(prices, into, rows, attended):
    """As `Grid.prompt`; False if a knot is not known."""
    grid, knots = prices.grid, prices.knots
    above_n, above_q = _above(prices, ROWS, rows), _above(prices, ATTENDED, attended)
    low_n, low_q = _below(prices, ROWS, above_n, rows), _below(prices, ATTENDED, above_q, attended)
    high_n, high_q = knots[ROWS, above_n], knots[ATTENDED, above_q]
    high_n = grid[BUDGET] if rows <= grid[BUDGET] and grid[BUDGET] < high_n else high_n
    high_q = grid[POSITIONS] if attended <= grid[POSITIONS] and grid[POSITIONS] < high_q else high_q
    at_n, at_q = _between(rows, low_n, high_n), _between(attended, low_q, high_q)
    return _corners(prices, into, PROMPT, at_n, low_n, high_n, at_q, low_q, high_q)


@rare
def _pair(prices, context):
    """As `Grid.pair`; NaN if a knot is not known."""
    grid, knots, keys = prices.grid, prices.knots, prices.keys
    above = _above(prices, CONTEXTS, context)
    low = _below(prices, CONTEXTS, above, context)
    high = max(min(knots[CONTEXTS, above], grid[LONGEST], grid[ROOM] - 2), np.int64(np.ceil(context)))
    share = _between(context, low, high)
    at = place(keys, PAIR, low, 0)
    if keys[at, 0] == EMPTY:
        return np.nan
    if share == 0.0:
        return prices.costs[at, 0]
    other = place(keys, PAIR, high, 0)
    if keys[other, 0] == EMPTY:
        return np.nan
    return (1.0 - share) * prices.costs[at, 0] + share * prices.costs[other, 0]


@rare
def _decoding(prices, requests, total, longest, second, beside):
    """As `Grid._decoding`, into `cost`; beside: prompts."""
    cost, part = prices.cost, prices.part
    if not _decode(prices, cost, requests, total / requests):
        return False
    two = requests > 2 and not beside
    rest, usual = (total - longest - second) / max(requests - 2, 1), 0.0
    if two:
        usual = prices.tops[requests] * rest
        two = second > usual
    if not two and requests > 1:
        rest = (total - longest) / (requests - 1)
        usual = prices.tops[requests] * rest
    if requests == 1 or longest <= usual:
        return True
    if not _decode(prices, part, requests, rest):
        return False
    apart = _pair(prices, usual)
    later = part[0] + (_pair(prices, np.float64(longest)) - apart)
    if two:
        at = place(prices.keys, TURNS, 0, 0)
        if prices.keys[at, 0] == EMPTY:
            return False
        later += prices.costs[at, 0] * (_pair(prices, np.float64(second)) - apart)
    if np.isnan(later):
        return False
    if later > cost[0]:
        _wait(prices, np.float64(longest), later - cost[0])
        cost[0] = later
    return True


@rare
def _wait(prices, context, more):
    """Add the energies of so many ps in which a context is waited for, as `Grid._waiting` has them."""
    grid, knots, keys, costs = prices.grid, prices.knots, prices.keys, prices.costs
    above = _above(prices, CONTEXTS, context)
    low = _below(prices, CONTEXTS, above, context)
    high = max(min(knots[CONTEXTS, above], grid[LONGEST], grid[ROOM] - 2), np.int64(np.ceil(context)))
    one, other = place(keys, PAIR, low, 0), place(keys, PAIR, high, 0)
    for i in range(JOULES, len(prices.cost)):
        prices.cost[i] += more * min(costs[one, i] / costs[one, 0], costs[other, i] / costs[other, 0])


@rare
def read(prices, requests, total, longest, second, rows, pairs, ends):
    """As `Grid.of`, into `cost`; False if Python has to know more first."""
    cost, part = prices.cost, prices.part
    if not prices.grid[PRICES] or (rows and not prices.grid[WITH_PROMPTS]):
        return False
    if requests:
        if not _decoding(prices, requests, total, longest, second, rows > 0):
            return False
        if rows:
            wide = rows + requests
            if not _prompt(prices, part, wide, (pairs + requests) / wide):
                return False
            for i in range(len(cost)):
                cost[i] += part[i]
            if not _prompt(prices, part, requests, 1.0):
                return False
            for i in range(len(cost)):
                cost[i] -= part[i]
    else:
        if not _prompt(prices, cost, rows, pairs / rows):
            return False
        if ends and not (_add(prices, cost, 1.0, ENDING, 1, 1) and _add(prices, cost, -1.0, PROMPT, 1, 1)):
            return False
    for i in range(len(cost)):
        cost[i] = 0.0 if cost[i] < 0.0 else cost[i]
    cost[0] *= prices.scale[ONLY_DECODE if not rows else MIXED if requests else ONLY_PROMPT]
    return True
