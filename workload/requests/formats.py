"""Formats of public traces: what their columns are called, and in what unit they write times."""

from typing import NamedTuple

from pimloom.arch.units import PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US

DATE = 0  # instead of a unit: dates and times, or seconds


class Format(NamedTuple):
    """time, prompt, output: names of columns; unit: of times [ps]; others: what else is there, and not read; optional:
    what else may be there; failed: whether rows without output are failures, which are left out; identity: the
    column of identities of blocks of so many tokens."""

    name: str
    time: str
    unit: int
    prompt: str
    output: str
    others: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    failed: bool = False
    identity: tuple[str, int] | None = None

    @property
    def columns(self) -> set[str]:
        """That must be there."""
        return {self.time, self.prompt, self.output, *self.others, *([self.identity[0]] if self.identity else [])}

    def fits(self, names: list[str]) -> bool:
        """Whether a file with these columns is one."""
        return self.columns <= set(names) <= self.columns | set(self.optional) and len(set(names)) == len(names)


CSV = (
    Format("pimloom", "timestamp", DATE, "prompt_tokens", "output_tokens"),
    Format("Azure", "TIMESTAMP", DATE, "ContextTokens", "GeneratedTokens", optional=("NumImages",)),
    Format(
        "BurstGPT", "Timestamp", PS_PER_S, "Request tokens", "Response tokens", ("Model", "Total tokens", "Log Type"),
        optional=("Session ID", "Elapsed time"), failed=True,
    ),
    Format(
        "Splitwise", "arrival_timestamp", PS_PER_S, "prompt_size", "token_size",
        ("request_id", "request_type", "application_id", "batch_size"),
    ),
    Format("ticks", "arrival", PS_PER_US, "prompt", "output", ("request",), optional=("group", "shared")),
)  # fmt: skip
JSON_LINES = (
    Format("Mooncake", "timestamp", PS_PER_MS, "input_length", "output_length", identity=("hash_ids", 512)),
    Format("LLMServingSim", "arrival_time_ns", PS_PER_NS, "input_toks", "output_toks", optional=("input_tok_ids",)),
    Format("APEX", "StartTimeOffset", PS_PER_NS, "ContextTokens", "GeneratedTokens"),
)


def said(formats: tuple[Format, ...]) -> str:
    """Their columns, for a person.

    >>> said(CSV[:2])
    'timestamp,prompt_tokens,output_tokens or TIMESTAMP,ContextTokens,GeneratedTokens'
    """
    return " or ".join(",".join((each.time, each.prompt, each.output, *each.others)) for each in formats)
