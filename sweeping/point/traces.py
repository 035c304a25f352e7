"""Requests of a trace as plain data, with what their prompts share."""

from pathlib import Path

import msgspec

from pimloom.workload.requests.read import read
from pimloom.workload.requests.table import Answered, Groups, Identities, Prefix, Requests, Tokens


class Trace(msgspec.Struct, frozen=True):
    """The fields of `Requests`, and of its prefix: group and shared, or blocks of so many tokens, or tokens."""

    name: str
    arrival_ps: list[int]
    prompt: list[int]
    output: list[int]
    note: str
    group: list[str] | None = None
    shared: list[int] | None = None
    blocks: list[list[int]] | None = None
    block_tokens: int = 0
    tokens: list[list[int]] | None = None
    answered: bool = False

    def requests(self) -> Requests:
        """As the rest of pimloom takes them."""
        found = Requests(self.name, self.arrival_ps, self.prompt, self.output, self.note)
        prefix = self._prefix()
        if self.answered and isinstance(prefix, Groups | Tokens):
            prefix = Answered(prefix, self.prompt, self.output)
        return found._replace(prefix=prefix)

    def _prefix(self) -> Prefix | None:
        if self.group is not None and self.shared is not None:
            return Groups(self.group, self.shared)
        if self.blocks is not None:
            return Identities(self.blocks, self.block_tokens)
        return None if self.tokens is None else Tokens(self.tokens)


def read_trace(source: str) -> Trace:
    """Read a file of requests. Raises UserError."""
    found = read(Path(source))
    plain = Trace(found.name, list(found.arrival_ps), list(found.prompt), list(found.output), found.note)
    prefix = found.prefix
    if isinstance(prefix, Answered):
        prefix, plain = prefix.whole, msgspec.structs.replace(plain, answered=True)
    match prefix:
        case Groups(group, shared):
            return msgspec.structs.replace(plain, group=list(group), shared=list(shared))
        case Identities(blocks, tokens):
            return msgspec.structs.replace(plain, blocks=[list(each) for each in blocks], block_tokens=tokens)
        case Tokens(tokens=tokens):
            return msgspec.structs.replace(plain, tokens=[list(each) for each in tokens])
    return plain
