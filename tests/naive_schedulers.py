"""Schedulers as their English rules have them, one function each, slow and plain: all is counted anew each time.

A request is a dict; who waits, runs or is swapped out stands in a list of the state. One replica, one stage. Nothing
here is shared with the schedulers that it judges.
"""

from collections.abc import Callable
from typing import Any

State = dict[str, Any]
Batch = list[tuple[dict[str, Any], int]]  # requests and their new tokens, in batch order


def up(a: int, b: int) -> int:
    return a // b + (a % b > 0)


def free(s: State, r: dict[str, Any] | None = None) -> int:
    """In all; in the channel of a request, or in the emptiest one if it has none yet."""
    if r is None or not s.get("channels"):
        return int(s["N"] - sum(r["blocks"] for r in s["requests"]))
    if r["blocks"]:
        return free_in(s, r["channel"], r["blocks"])
    return max(free_in(s, channel) for channel in large_enough(s, r))


def large_enough(s: State, r: dict[str, Any]) -> list[int]:
    """Its last token is not put in the cache."""
    need = up(r["prompt"] + r["output"] - 1, s["size"])
    return [c for c, whole in enumerate(s["channels"]) if whole >= need]


def held_in(s: State, channel: int) -> list[int]:
    return [r["blocks"] for r in s["requests"] if r["blocks"] and r["channel"] == channel]


def free_in(s: State, channel: int, mine: int = 0) -> int:
    """Blocks for one that holds some there, whose rows no other request shares if rows count."""
    held = held_in(s, channel)
    left = int(s["channels"][channel] - sum(held))
    if not s.get("rows_of"):
        return left
    others = sum(s["rows_of"](blocks) for blocks in held) - s["rows_of"](mine)
    return next(n for n in range(left, -1, -1) if others + s["rows_of"](mine + n) <= s["rows"] or not n)


def give(s: State, r: dict[str, Any], number: int) -> None:
    """The first blocks of a request decide its channel: where fewest are held, or in turn, of those with room."""
    if s.get("channels") and not r["blocks"]:
        many = len(s["channels"])
        fits = [c for c in large_enough(s, r) if free_in(s, c) >= number + s["spare"]]
        if s["policy"] == "min-load":
            r["channel"] = min(fits, key=lambda c: (sum(held_in(s, c)), c))
        else:
            first = s.get("turn", 0)
            r["channel"] = next(c % many for c in range(first, first + many) if c % many in fits)
            s["turn"] = (r["channel"] + 1) % many
    r["blocks"] += number


def last(s: State, r: dict[str, Any], candidates: list[dict[str, Any]]) -> dict[str, Any]:
    """The last of the candidates, in a machine of channels the last one in r's; r itself if there is none."""
    same = [one for one in candidates if not s.get("channels") or one["channel"] == r["channel"]]
    if not same:
        return r
    candidates.remove(same[-1])
    return same[-1]


def holders(s: State) -> int:
    return sum(r["blocks"] > 0 for r in s["requests"])


def lose_cache(s: State, r: dict[str, Any]) -> None:
    r["blocks"], r["cached"], r["prefill"] = 0, 0, r["known"]
    s["restarts"].append(r["number"])


def age(r: dict[str, Any]) -> tuple[int, int]:
    return r["arrival"], r["number"]


def arrival(r: dict[str, Any]) -> int:
    """Of equal arrivals nobody is first: they stay as they stand."""
    return int(r["arrival"])


def free_block_for(s: State, r: dict[str, Any], candidates: list[dict[str, Any]], lose: Callable[..., None]) -> bool:
    """Section 3.1: one block free to decode; victims are the last of the candidates, in the end r itself."""
    while free(s, r) == 0:
        victim = last(s, r, candidates)
        lose(s, victim)
        s["waiting"].insert(0, victim)
        if victim is r:
            return False
    if r["known"] > r["blocks"] * s["size"]:
        r["blocks"] += 1
    return True


def admit_whole(s: State, r: dict[str, Any]) -> bool:
    """Whether the blocks of its prompt leave the watermark; then it has them."""
    need = up(r["prefill"], s["size"])
    if free(s, r) - need < s["watermark"]:
        return False
    give(s, r, need)
    return True


def vidur_vllm(s: State) -> Batch:
    batch: Batch = []
    while s["waiting"] and holders(s) != s["cap"] and len(batch) != s["cap"]:
        r = s["waiting"][0]
        longest = max([n for _, n in batch] + [r["prefill"]])
        if (len(batch) + 1) * longest > s["budget"] or not admit_whole(s, r):
            break
        s["waiting"].pop(0)
        batch.append((r, r["prefill"]))
    if batch:
        return batch
    idle = sorted(s["running"], key=arrival)
    while idle and len(batch) < s["cap"]:
        r = idle.pop(0)
        if free_block_for(s, r, idle, lose_cache):
            batch.append((r, 1))
    s["running"] = idle
    return batch


def sarathi(s: State) -> Batch:
    """As Vidur has it if s["vidur"], else as Sarathi-Serve."""

    def lose(s: State, r: dict[str, Any]) -> None:
        if s["vidur"] and r["cached"] < r["prefill"]:
            r["known"] = r["cached"]
        lose_cache(s, r)

    order = list(s["running"]) if s["vidur"] else sorted(s["running"], key=age)
    batch: Batch = []
    halves, back = [], []
    while order and len(batch) < s["cap"]:
        r = order.pop(0)
        if r["cached"] < r["prefill"]:
            halves.append(r)
        elif free_block_for(s, r, order, lose):
            batch.append((r, 1))
    for r in halves:
        n = min(r["prefill"] - r["cached"], s["budget"] - sum(n for _, n in batch))
        if n > 0:
            batch.append((r, n))
        else:
            back.append(r)
    s["running"] = sorted(back + order, key=arrival if s["vidur"] else age)
    while s["waiting"] and holders(s) != s["cap"] and len(batch) < s["cap"]:
        r = s["waiting"][0]
        n = min(r["prefill"], s["budget"] - sum(n for _, n in batch))
        if free(s, r) - up(r["prefill"], s["size"]) < s["watermark"] or n <= 0:
            break
        admit_whole(s, r)
        s["waiting"].pop(0)
        batch.append((r, n))
    return batch


def orca(s: State) -> Batch:
    batch: Batch = [(r, 1) for r in s["running"][: s["cap"]]]
    s["running"] = s["running"][s["cap"] :]
    return batch + new_reservations(s, s["cap"] - len(batch))


def new_reservations(s: State, places: int) -> Batch:
    batch: Batch = []
    while s["waiting"] and len(batch) < places and free(s, s["waiting"][0]) >= s["reserved"]:
        r = s["waiting"].pop(0)
        give(s, r, s["reserved"])
        batch.append((r, r["prompt"]))
    return batch


def faster_transformer(s: State) -> Batch:
    if s["running"]:
        batch: Batch = [(r, 1) for r in s["running"]]
        s["running"] = []
        return batch
    return new_reservations(s, s["cap"])


def lightllm(s: State) -> Batch:
    """Blocks of one token."""
    running = s["running"]
    if not running or s["since"] == s["patience"]:
        s["since"] = 0
        batch: Batch = []
        growing = [(max(r["output"] - 1 - (r["known"] - r["prompt"]), 0), r["known"]) for r in running]
        while s["waiting"] and len(batch) + len(running) < s["cap"]:
            r = s["waiting"][0]
            growing.append((max(r["output"] - 2, 0), r["prompt"] + 1))
            growing.sort(key=lambda one: -one[0])
            peaks = [
                left * (k + 1) + sum(known for _, known in growing[: k + 1]) for k, (left, _) in enumerate(growing)
            ]
            if sum(n for _, n in batch) + r["prompt"] > s["budget"] or max(peaks) >= s["N"]:
                break
            s["waiting"].pop(0)
            r["blocks"] = r["prompt"]
            batch.append((r, r["prompt"]))
        if batch:
            return batch
    if running:
        s["since"] += 1
    s["running"] = []
    for r in running:
        r["blocks"] += 1
    return [(r, 1) for r in running]


def vllm_v0(s: State) -> Batch:
    batch: Batch = []
    while not s["swapped"] and s["waiting"] and len(s["running"]) < s["cap"]:
        r = s["waiting"][0]
        if sum(n for _, n in batch) + r["known"] > s["budget"] or not admit_whole(s, r):
            break
        s["running"].append(s["waiting"].pop(0))
        batch.append((r, r["known"]))
    if batch:
        return batch
    queue, victims, kept = list(s["running"]), False, []

    def lose(s: State, r: dict[str, Any]) -> None:
        nonlocal victims
        victims = True
        if not s["swap"]:
            lose_cache(s, r)
            return
        r["away"], r["blocks"] = r["blocks"], 0
        s["swapped"].append(r)
        s["restarts"].append(r["number"])

    while queue:
        r = queue.pop(0)
        if free_block_for(s, r, queue, lose):
            kept.append(r)
    s["waiting"] = [r for r in s["waiting"] if r not in s["swapped"]]
    while not victims and s["swapped"] and len(kept) < min(s["cap"], s["budget"]):
        r = s["swapped"][0]
        if free(s) - (r["cached"] // s["size"] + 1) < s["watermark"]:
            break
        s["swapped"].pop(0)
        r["blocks"] = max(r["away"], up(r["known"], s["size"]))
        kept.append(r)
    s["running"] = kept
    return [(r, 1) for r in kept]


def vllm_v0_chunked(s: State) -> Batch:
    queue, victims = list(s["running"]), []
    decodes: Batch = []
    halves: Batch = []
    while queue:
        r = queue.pop(0)
        left = s["budget"] - sum(n for _, n in decodes + halves)
        half = r["cached"] < r["prefill"]
        while free(s, r) == 0 and not (half and r["known"] % s["size"] == 0):  # of vLLM, a last block that is not full
            victim = last(s, r, queue)
            lose_cache(s, victim)
            victims.append(victim)
            if victim is r:
                break
        if r not in victims and half:
            halves.append((r, min(r["prefill"] - r["cached"], left)))
        elif r not in victims:
            if r["known"] > r["blocks"] * s["size"]:
                r["blocks"] += 1
            decodes.append((r, 1))
    new: Batch = []
    while s["waiting"] and len(decodes) + len(halves) + len(new) < s["cap"]:
        r = s["waiting"][0]
        n = min(r["known"], s["budget"] - sum(n for _, n in decodes + halves + new))
        if n == 0 or not admit_whole(s, r):
            break
        s["waiting"].pop(0)
        new.append((r, n))
    for victim in victims:
        s["waiting"].insert(0, victim)
    ends = [r for r, n in halves if r["cached"] + n == r["prefill"]]
    rest = [r for r, n in halves if r not in ends]
    s["running"] = [r for r, _ in decodes] + ends + rest + [r for r, _ in new]
    return new + halves + decodes


def vllm_v1(s: State) -> Batch:
    """Blocks have a number, a name and users; those of a request are in r["mine"]; s["free"] is the free list."""
    batch: Batch = []
    victims, i = False, 0
    left = s["budget"]
    while i < len(s["running"]) and left > 0:
        r = s["running"][i]
        n = min(r["known"] - r["cached"], s["threshold"] or left, left)
        while not slots(s, r, n, []):
            later = s["running"][i:]
            victim = last(s, r, later)
            s["running"][i:] = later
            give_back(s, victim)
            lose_cache(s, victim)
            s["waiting"].insert(0, victim)
            victims = True
            if victim is r:
                return batch
        batch.append((r, n))
        left, i = left - n, i + 1
    while not victims and s["waiting"] and left > 0 and len(s["running"]) < s["cap"]:
        r = s["waiting"][0]
        found = hits(s, r)
        n = min(r["known"] - len(found) * s["size"], s["threshold"] or left, left)
        if s.get("whole") and not fits_whole(s, r, found) or not slots(s, r, n, found):
            break
        r["cached"] = len(found) * s["size"]
        name_full_blocks(s, r, r["cached"] + n)
        s["running"].append(s["waiting"].pop(0))
        batch.append((r, n))
        left -= n
    return batch


def hits(s: State, r: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    while s["sharing"]:
        k = len(found)
        same = [b for b in s["order"] if b["name"] == identity(r, k, s["size"])]
        if not same or (k + 1) * s["size"] >= r["known"]:
            break
        found.append(same[0])
    return found


def identity(r: dict[str, Any], k: int, size: int) -> Any:
    return ("group", r["group"], k) if (k + 1) * size <= r["shared"] else ("own", r["number"], k)


def fits_whole(s: State, r: dict[str, Any], found: list[Any]) -> bool:
    """Of later versions: blocks for all of its tokens, beside those that it has found, are free."""
    free_ones = [b for b in s["free"] if b not in found]
    return up(min(r["known"], s["longest"]), s["size"]) - len(found) <= len(free_ones)


def slots(s: State, r: dict[str, Any], n: int, found: list[Any]) -> bool:
    size, mine = s["size"], r["mine"]
    need = up(r["cached"] + len(found) * size + n, size) - len(mine) - len(found)
    there = free(s, r) if s.get("channels") else len(s["free"]) - sum(b in s["free"] for b in found)
    if need > there:
        return False
    if s.get("channels") and need > 0:
        give(s, r, min(need + up(s.get("ahead", 64), size), there, up(s["longest"], size) - len(mine)))
    for b in found:
        if b in s["free"]:
            s["free"].remove(b)
        b["users"] += 1
        mine.append(b)
    if need > 0:
        for _ in range(min(need + up(s.get("ahead", 64), size), there, up(s["longest"], size) - len(mine))):
            b = s["free"].pop(0)
            b["name"], b["users"] = None, 1
            if b in s["order"]:
                s["order"].remove(b)
            mine.append(b)
    name_full_blocks(s, r, r["cached"] + n)
    return True


def name_full_blocks(s: State, r: dict[str, Any], tokens: int) -> None:
    for k in range(min(tokens // s["size"], len(r["mine"]))):
        if r["mine"][k]["name"] is None:
            r["mine"][k]["name"] = identity(r, k, s["size"])
            s["order"].append(r["mine"][k])


def give_back(s: State, r: dict[str, Any]) -> None:
    for b in reversed(r["mine"]):
        b["users"] -= 1
        if not b["users"]:
            s["free"].append(b)
    r["mine"] = []
    r["blocks"] = 0


RETURNING = (vidur_vllm, sarathi, orca, faster_transformer, lightllm)  # who goes on joins the end of `running`


def simulate(
    rule: Callable[[State], Batch], table: list[dict[str, int]], price: Callable[..., int], **limits: Any
) -> tuple[list[Any], list[Any]]:
    """(start, numbers, new, cached) of iterations; (first token, completion, restarts) of requests."""
    requests: list[dict[str, Any]] = [
        {"group": 0, "shared": 0, **row, "cached": 0, "known": row["prompt"], "prefill": row["prompt"], "blocks": 0}
        | {"mine": [], "first": -1, "end": -1}
        for row in table
    ]
    s: State = {"requests": requests, "waiting": [], "running": [], "swapped": [], "restarts": [], "since": 0, **limits}
    s["free"], s["order"] = [{"number": i, "name": None, "users": 0} for i in range(s["N"])], []
    coming, now, log = sorted(requests, key=age), 0, []
    while True:
        while coming and coming[0]["arrival"] <= now:
            s["waiting"].append(coming.pop(0))
        batch = rule(s)
        if not batch:
            if not coming:
                break
            now = coming[0]["arrival"]
            continue
        cached = [r["cached"] for r, _ in batch]
        log.append((now, [r["number"] for r, _ in batch], [n for _, n in batch], cached))
        start, now = now, now + price([n for _, n in batch], cached)
        while coming and coming[0]["arrival"] <= now:
            s["waiting"].append(coming.pop(0))
        assert now > start
        for r, n in batch:
            r["cached"] += n
            if r["cached"] == r["known"]:
                r["known"] += 1
                r["first"] = now if r["first"] < 0 else r["first"]
            if r["known"] == r["prompt"] + r["output"] or r["known"] >= s.get("longest", 10**9):
                r["end"], r["blocks"] = now, 0
                give_back(s, r)
        alive = [r for r, _ in batch if r["end"] < 0]
        s["running"] = s["running"] + alive if rule in RETURNING else [r for r in s["running"] if r["end"] < 0]
    return log, [(r["first"], r["end"], s["restarts"].count(r["number"])) for r in requests]
