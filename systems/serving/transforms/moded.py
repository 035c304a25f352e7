"""Modes of branches: requests that go on as a method of decoding has it, step by step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pimloom.arch.document import nearest
from pimloom.arch.error import of_option
from pimloom.systems.serving.pricing.costs import Piece
from pimloom.systems.serving.schedulers.live import LiveRequest
from pimloom.systems.serving.transforms.branched import Branched, Branching, lengths_of
from pimloom.workload.decoding import branches, pruning
from pimloom.workload.decoding.staged import Search, Staged, of_graph, of_search, of_streams, of_workers

PARALLELISM = 1.165  # tokens of a step, 1.15 to 1.18 [secondary: Multiverse's project page]
CLUSTERS, TEMPERATURE = 5, 0.2  # of meanings [design]; of the softmax over rewards [secondary: ETS, their MATH500]
START, WANDER = 0.5, 0.1  # of synthetic worth [design]
SUCH_AS = "such as multiverse, or parathinker,summary=64"


class Mode(NamedTuple):
    """name: of a method; share: of a request's tokens that lie in branches, None: as it has them; summary: tokens
    behind paths; step: between two choices of a search or two looks; below: worth under which a branch is given up."""

    name: str
    share: float | None = None
    summary: int = 64
    step: int = 64
    below: float = 0.4


KEYS = {
    "multiverse": ("share",), "threadweaver": ("share",), "hogwild": (), "parathinker": ("summary",), "parscale": (),
    "ets": ("step",), "sart": ("step", "below"),
}  # fmt: skip
WITH_STOP = ("parathinker", "sart")  # where fewer than all branches end it, or lengths are spread
MOST = {"summary": 10**6, "step": 10**6}


def parse_mode(text: str) -> Mode:
    """As a user writes it. Raises UserError.

    >>> parse_mode("ets, step=32")[::3]
    ('ets', 32)
    """
    name, *words = (part.strip() for part in text.split(","))
    if name not in KEYS:
        raise of_option("mode", text, f"expected one of {', '.join(KEYS)}, {SUCH_AS}{nearest(name, KEYS)}")
    found = dict[str, Any]()
    for word in words:
        key, equals, value = (part.strip() for part in word.partition("="))
        if key not in KEYS[name] or not equals or key in found:
            keys = ", ".join(f"{key}=..." for key in KEYS[name]) or "no more"
            raise of_option("mode", text, f"{name} takes {keys}, each once, got {word!r}")
        found[key] = _whole(text, key, value) if key in MOST else _share(text, key, value)
    return Mode(name)._replace(**found)


def _whole(text: str, key: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and 1 <= int(value[:9]) <= MOST[key]):
        raise of_option("mode", text, f"{key}: expected a whole number of at least 1, got {value!r}")
    return int(value)


def _share(text: str, key: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 < found <= 1:
        raise of_option("mode", text, f"{key}: expected above 0 and at most 1, got {value!r}")
    return found


def check_mode(mode: Mode, branching: Branching, text: str) -> None:
    """Raise UserError for branches that it does not have."""
    if mode.name not in WITH_STOP and (branching.stop < branching.number or branching.spread):
        raise of_option("branches", text, f"{mode.name} has no stop or spread; {', '.join(WITH_STOP)} have")
    if branching.number < 2:
        raise of_option("branches", text, f"{mode.name} needs at least 2")


def dress(request: LiveRequest, mode: Mode, branching: Branching, seed: int, positions: int) -> None:
    """A request that has not come yet. positions: of the model. Raises UserError if it needs more."""
    output, drawn = request.output, (branching, request.output, request.number, seed)
    if mode.name == "sart":
        Branched(_pruned(mode, *drawn), branching.shared).dress(request)
        return
    if output == 1:
        return
    made = PLANS[mode.name](request, mode, branching, seed)
    longest = max((row.context for stage in made.staged.stages for row in stage.rows), default=0)
    if longest > positions:
        raise of_option(
            "mode",
            mode.name,
            f"request {request.number} reaches a context of {longest:,} tokens, and the model has {positions:,} "
            "positions; take a model with more, or fewer branches",
        )
    made.dress(request)


class Moded:
    """Decoding of a request by stages; see `Decoding`. Copies, and what is computed more than once, stay to its end."""

    most, trims = 0, False

    def __init__(self, staged: Staged) -> None:
        self.staged, self.at = staged, -1  # -1: the prompt

    def dress(self, request: LiveRequest) -> None:
        """A request that has not come yet."""
        staged = self.staged
        more = (staged.lanes - 1) * request.prompt + staged.lanes * staged.prefix
        computed = sum(row.new for stage in staged.stages for row in stage.rows)
        copied = sum(stage.copied for stage in staged.stages)
        # at least one token is made and never computed: the request ends where it is known, too
        request.last = request.prompt + more + computed + copied + 1
        request.beside = request.last - request.prompt - staged.tokens
        request.decoding = self
        self.more = more

    def ahead(self, request: LiveRequest) -> int:
        """Nothing beyond what is known."""
        return 0

    def ran(self, request: LiveRequest) -> int:
        """All of a stage is computed; what the next one computes is known."""
        stages, at = self.staged.stages, self.at
        if at < 0:
            request.cached += self.more
            request.known += self.more
        self.at = at = at + 1
        if at == len(stages):
            request.known += 1
        else:
            request.cached += stages[at].copied
            request.known += stages[at].copied + sum(row.new for row in stages[at].rows)
        return self.staged.first if at == 0 else stages[at - 1].made

    def pieces(self, request: LiveRequest, new: int, cached: int) -> list[Piece]:
        """Rows of a stage; what is computed once more as parts of prompts behind one another."""
        staged = self.staged
        if self.at < 0:
            one = Piece(new, cached + staged.prefix, int(cached + new >= request.known))
            return [one, *[one._replace(logits=0)] * (staged.lanes - 1)]
        rows = staged.stages[self.at].rows if self.at < len(staged.stages) else ()
        if new == sum(row.new for row in rows) and cached + new == request.known:
            return [Piece(r.new, r.context - r.new, r.logits, shared=r.shared, group=r.group) for r in rows]
        longest = max((row.context for row in rows), default=request.prompt)
        return [Piece(new, min(cached, max(longest - new, 0)), int(cached + new >= request.known))]


def _pruned(mode: Mode, branching: Branching, output: int, number: int, seed: int) -> list[int]:
    """Tokens of each branch until it ends, is given up, or enough others have ended, rising."""
    lengths = lengths_of(branching._replace(stop=branching.number), output, number, seed)
    order = np.random.default_rng([seed, 17, number]).permutation(len(lengths))
    looks = max(lengths) // mode.step + 1
    worth = pruning.walks(branching.number, looks, START, WANDER, seed + number)
    mixed = [lengths[i] for i in order]
    return sorted(
        pruning.pruned(mixed, worth, pruning.Rules(branching.stop, mode.below, branching.stop, mode.step)).each
    )


def _forked(request: LiveRequest, mode: Mode, branching: Branching, seed: int) -> Moded:
    """A part in sequence, branches, and a part behind them (Multiverse, ThreadWeaver)."""
    n, output = branching.number, request.output
    share = mode.share
    if share is None:
        share = min((1 - 1 / PARALLELISM) / (1 - 1 / n), 1.0) if mode.name == "multiverse" else 0.5
    beside = min(max(round(share * output), 0), output - 2)
    if beside < n:
        return Moded(of_graph({"all": branches.Segment(output)}, request.prompt, shared=branching.shared))
    each = [beside // n + (i < beside % n) for i in range(n)]
    first = (output - beside) // 2
    made = branches.multiverse if mode.name == "multiverse" else branches.threads
    return Moded(of_graph(made(first, each, output - beside - first), request.prompt, shared=branching.shared))


def _paths(request: LiveRequest, mode: Mode, branching: Branching, seed: int) -> Moded:
    lengths = lengths_of(branching, request.output, request.number, seed)
    return Moded(of_graph(branches.paths(lengths, mode.summary), request.prompt, shared=branching.shared))


def _workers(request: LiveRequest, mode: Mode, branching: Branching, seed: int) -> Moded:
    return Moded(of_workers(request.prompt, branching.number, request.output, shared=branching.shared))


def _streams(request: LiveRequest, mode: Mode, branching: Branching, seed: int) -> Moded:
    return Moded(of_streams(request.prompt, branching.number, request.output))


def _search(request: LiveRequest, mode: Mode, branching: Branching, seed: int) -> Moded:
    n, drawn = branching.number, np.random.default_rng([seed, 19, request.number])

    def rewards(depth: int) -> list[float]:
        found = np.exp(drawn.random(n) / TEMPERATURE)
        return [float(value) for value in found / found.sum()]

    search = Search(n, mode.step, rewards, lambda depth: [int(k) for k in drawn.integers(0, CLUSTERS, n)])
    return Moded(of_search(request.prompt, search, request.output, shared=branching.shared))


PLANS: dict[str, Callable[[LiveRequest, Mode, Branching, int], Moded]] = {
    "multiverse": _forked, "threadweaver": _forked, "hogwild": _workers, "parathinker": _paths, "parscale": _streams,
    "ets": _search,
}  # fmt: skip
