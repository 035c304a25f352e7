"""A draft that proposes tokens on the same devices: what its passes cost, and the room that it takes."""

from collections.abc import Sequence
from typing import NamedTuple

from pimloom.arch.error import UserError
from pimloom.systems.devices.device import Capacity
from pimloom.systems.serving.online.costs import Cost, Piece, added
from pimloom.systems.serving.online.record import Costs

SUCH_AS = "such as draft=gpt2,gamma=4,alpha=0.7 or with spread=0.1"


class Speculation(NamedTuple):
    """draft: a model; gamma: tokens that it proposes in a step; alpha: probability that one is accepted, mean over
    requests; spread: its standard deviation."""

    draft: str
    gamma: int
    alpha: float
    spread: float = 0.0


def parse_speculation(text: str) -> Speculation:
    """As a user writes it. Raises UserError.

    >>> parse_speculation("draft=gpt2, gamma=4, alpha=0.7")
    Speculation(draft='gpt2', gamma=4, alpha=0.7, spread=0.0)
    """
    found = dict[str, str]()
    for part in text.split(","):
        name, sign, value = (word.strip() for word in part.partition("="))
        if name not in Speculation._fields or not sign or name in found:
            raise UserError(f"--speculate {text}: expected {', '.join(Speculation._fields)} once each, {SUCH_AS}")
        found[name] = value
    try:
        read = Speculation(found["draft"], int(found["gamma"]), float(found["alpha"]), float(found.get("spread", "0")))
    except KeyError as error:
        raise UserError(f"--speculate {text}: expected {error.args[0]}, too, {SUCH_AS}") from None
    except ValueError:
        raise UserError(f"--speculate {text}: expected numbers, {SUCH_AS}") from None
    if not 1 <= read.gamma <= 64 or not 0 <= read.alpha <= 1:
        raise UserError(f"--speculate {text}: expected a gamma of 1 to 64 and an alpha of 0 to 1, {SUCH_AS}")
    if not 0 <= read.spread**2 <= 0.99 * read.alpha * (1 - read.alpha):
        raise UserError(f"--speculate {text}: expected a spread below that of requests that are all right or all wrong")
    return read


def room_of(target: Capacity, draft: Capacity, names: tuple[str, str]) -> int:
    """Tokens whose keys and values fit beside the weights of both. Raises UserError for a draft that is no smaller."""
    if draft.weight_bytes >= target.weight_bytes:
        raise UserError(
            f"--speculate draft={names[1]}: has {draft.weight_bytes:,} bytes of weights, and {names[0]} has "
            f"{target.weight_bytes:,}; a draft must be smaller"
        )
    left = target.memory_bytes - target.weight_bytes - draft.weight_bytes
    return max(int(left / (target.cache_bytes_per_token + draft.cache_bytes_per_token)), 0)


class Drafted:
    """Costs of steps in which the draft takes prompts, too, and proposes a token in each of its passes, one behind the
    other; then the target checks them."""

    def __init__(self, target: Costs, draft: Costs) -> None:
        self.target, self.draft = target, draft

    def of(self, pieces: Sequence[Piece]) -> Cost:
        """An iteration. Raises UserError."""
        parts = [(1.0, self.target.of(pieces))]
        prompts = [piece._replace(logits=0) for piece in pieces if not piece.cached or piece.new > max(piece.logits, 1)]
        if prompts:
            parts.append((1.0, self.draft.of(prompts)))
        checked = [piece for piece in pieces if piece.logits > 1]
        for nth in range(1, max((piece.logits for piece in checked), default=1)):
            some = [Piece(1, piece.cached + nth - 1, 1) for piece in checked if piece.logits > nth]
            parts.append((1.0, self.draft.of(some)))
        return added(parts)
