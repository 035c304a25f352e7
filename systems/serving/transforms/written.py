"""Speculation and branches as a user writes them."""

from collections.abc import Mapping
from math import sqrt
from typing import Any, NamedTuple

from pimloom.arch.document import nearest
from pimloom.arch.error import UserError, of_option
from pimloom.arch.name_units import counted
from pimloom.systems.serving.transforms.branched import Branching
from pimloom.systems.serving.transforms.moded import KEYS as MODES
from pimloom.workload.decoding import tree

SUCH_AS = "such as draft=gpt2,gamma=4,alpha=0.7, or medusa"
KINDS = ("chain", "medusa", "prism", "mirror")
MOST = 256  # drafts of a step, nodes of a tree, branches of a request
TOP1 = (0.6, 0.45, 0.35, 0.3, 0.25)  # [design] of five heads: the authors publish none
DECAY, NODES = 0.4, 63  # [design]; [secondary] their trees for Vicuna have 63 nodes


class Speculation(NamedTuple):
    """kind: of KINDS; draft: a model; gamma: drafts of a step; alpha: chance of each place, one for all; spread: of a
    request's own chance; on: a system for the draft, None: the target's; streams: tokens of a pass of the draft.
    Medusa: top1 of each head, decay, nodes. Mirror: layers before the exit, kappa candidates, rho that one is right."""

    kind: str
    draft: str | None = None
    gamma: int = 4
    alpha: tuple[float, ...] = ()
    spread: float = 0.0
    on: str | None = None
    streams: int = 1
    top1: tuple[float, ...] = TOP1
    decay: float = DECAY
    nodes: int = NODES
    exit: int | None = None
    kappa: int = 1
    rho: float | None = None

    @property
    def alphas(self) -> list[float]:
        """Of each place."""
        return [self.alpha[min(i, len(self.alpha) - 1)] for i in range(self.gamma)]


KEYS = {
    "chain": ("draft", "gamma", "alpha", "spread", "on", "streams"),
    "medusa": ("top1", "decay", "nodes"),
    "prism": ("draft", "gamma", "alpha"),
    "mirror": ("draft", "gamma", "alpha", "spread", "on", "streams", "exit", "kappa", "rho"),
}
NEEDED = {"chain": ("draft", "alpha"), "medusa": (), "prism": ("draft", "alpha"),
          "mirror": ("draft", "alpha", "on", "exit", "rho")}  # fmt: skip
WHOLE, SHARES = ("gamma", "streams", "nodes", "exit", "kappa"), ("alpha", "top1", "decay", "rho", "spread")


def parse_speculation(text: str) -> Speculation:
    """Raises UserError.

    >>> parse_speculation("draft=gpt2, gamma=2, alpha=0.7").alphas
    [0.7, 0.7]
    >>> parse_speculation("medusa, nodes=10")[:2]
    ('medusa', None)
    """
    words = [part.strip() for part in text.split(",")]
    kind = words.pop(0) if "=" not in words[0] else "chain"
    if kind not in KINDS:
        raise of_option(
            "speculate", text, f"expected draft=MODEL, medusa, prism or mirror, {SUCH_AS}{nearest(kind, KINDS)}"
        )
    given = _pairs("--speculate", text, words, KEYS[kind], SUCH_AS)
    if missing := [key for key in NEEDED[kind] if key not in given]:
        raise of_option("speculate", text, f"{kind} has no {' and no '.join(missing)}; add {missing[0]}=...")
    read = {key: _value(text, key, value) for key, value in given.items()}
    found = Speculation(kind, **read)
    if len(found.alpha) > found.gamma:
        raise of_option(
            "speculate", text, f"{len(found.alpha)} values of alpha for {found.gamma} drafts; give gamma more"
        )
    if found.spread and len(found.alpha) > 1:
        raise of_option("speculate", text, "a spread needs one alpha for all positions; leave one of the two out")
    if found.spread and found.spread >= (most := sqrt(found.alpha[0] * (1 - found.alpha[0]))):
        raise UserError(
            f"--speculate {text}: spread: expected below {most:.3g} about alpha {found.alpha[0]:g}"
            if most
            else f"--speculate {text}: spread: about alpha {found.alpha[0]:g} there is none; leave it out"
        )
    if found.streams > found.gamma:
        raise of_option("speculate", text, f"streams: expected at most the {found.gamma} drafts, got {found.streams}")
    if "nodes" in given and found.nodes > (there := tree.most_nodes(len(found.top1))):
        heads = counted(len(found.top1), "head")
        raise of_option(
            "speculate", text, f"nodes: expected at most {there}, all nodes of {heads} with {tree.RANKS} guesses each"
        )
    return found


def _pairs(option: str, text: str, words: list[str], keys: tuple[str, ...], such_as: str) -> dict[str, str]:
    found = dict[str, str]()
    for word in words:
        key, equals, value = (part.strip() for part in word.partition("="))
        if key not in keys or not equals:
            raise UserError(f"{option} {text}: expected {', '.join(keys)}, {such_as}, got {word!r}{nearest(key, keys)}")
        if key in found:
            raise UserError(f"{option} {text}: {key} is given twice")
        found[key] = value
    return found


def _value(text: str, key: str, value: str) -> Any:
    if key in WHOLE:
        return _whole("--speculate", text, key, value)
    if key not in SHARES:
        return value
    many = value.split(":") if key in ("alpha", "top1") else [value]
    found = tuple(_share("--speculate", text, key, one) for one in many)
    if len(found) > MOST:
        raise of_option("speculate", text, f"{key}: expected at most {MOST} values")
    return found if key in ("alpha", "top1") else found[0]


def _whole(option: str, text: str, key: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and 1 <= int(value[:9]) <= MOST):
        raise UserError(f"{option} {text}: {key}: expected 1 to {MOST}, got {value!r}")
    return int(value)


def _share(option: str, text: str, key: str, value: str, most: float = 1.0) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found <= most:
        raise UserError(f"{option} {text}: {key}: expected 0 to {most:g}, got {value!r}")
    return found


def parse_branches(text: str, shared: bool, mode: str | None = None) -> Branching:
    """mode: as typed, of which a refusal tells. Raises UserError.

    >>> parse_branches("8, stop=4, spread=0.5", False)
    Branching(number=8, stop=4, spread=0.5, shared=False)
    """
    first, *words = (part.strip() for part in text.split(","))
    such_as = "such as 8, or 8,stop=4,spread=0.5"
    number = _whole("--branches", text, f"number, {such_as}", first)
    _check_of_modes(text, words, mode)
    given: Mapping[str, str] = _pairs("--branches", text, words, ("stop", "spread"), such_as)
    stop = _whole("--branches", text, "stop", given["stop"]) if "stop" in given else number
    if stop > number:
        raise of_option("branches", text, f"stop: expected at most the {number} branches, got {stop}")
    return Branching(number, stop, _share("--branches", text, "spread", given.get("spread", "0"), 3.0), shared)


def _check_of_modes(text: str, words: list[str], mode: str | None) -> None:
    """Raise UserError for a key of modes."""
    asked = (mode or "").partition(",")[0].strip()
    for word in words:
        key = word.partition("=")[0].strip()
        if takers := [name for name, keys in MODES.items() if key in keys]:
            name = asked if asked in takers else takers[0]
            shown = word if "=" in word else f"{key}=..."
            raise of_option("branches", text, f"{key} belongs to --mode, such as --mode {name},{shown}")
