# amaranth: UnusedElaboratable=no
"""What `pimloom rtl prove` asks about the blocks whose properties are claims."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pimloom.rtl.flow.subject import Subject
from pimloom.rtl.formal import interleave
from pimloom.rtl.formal.claim import Claim, ClaimQuestion, Setup
from pimloom.rtl.formal.proof import Task

BITS: dict[Task, int] = {"prove": 10, "lemma": 10, "search": 10, "see": 4, "break": 4}  # of a free constant


def subject(block: str, part: str, claims: Mapping[str, Claim], setup: Setup, key: str, timings: str) -> Subject:
    """The claims about a block. key: what decides, beside the sources, how `setup` makes it."""

    def question(name: str, own: bool, task: Task, twin: Any) -> str:
        return ClaimQuestion(setup, claims[name], task, BITS[task], twin).rtlil()

    def asked(name: str, own: bool, task: Task, twin: Any) -> list[str]:
        return [block, key, name, str(BITS[task]), task, repr(twin)]

    return Subject(block, part, claims, None, question, asked, timings)


def _interleave(part: str, sub_batches: int = 2) -> Subject:
    claims = interleave.claims(sub_batches)
    told = f"any below {2 ** BITS['prove']}, {sub_batches} sub-batch{'es' if sub_batches > 1 else ''}"
    return subject("interleave", part, claims, partial(interleave.setup, sub_batches), str(sub_batches), told)


CLAIMED: dict[str, Callable[..., Subject]] = {"interleave": _interleave}
