"""Formats of public traces: what their columns are called, and in what unit they write times."""

from typing import NamedTuple

from pimloom.arch.units import PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US

OUTPUT_IDS = "output_tok_ids"  # of generated tokens
DATE = 0  # instead of a unit: dates and times, or seconds


class RequestFormat(NamedTuple):
    """time, prompt, output: names of columns; unit: of times [ps]; others: what else is there, and not read; optional:
    what else may be there; failed: whether rows without output are failures, which are left out; sorted: whether rows
    come in the order of their times; identity: the
    column of identities of blocks of so many tokens; number: the column of requests' own numbers; total: that of the
    sum of prompt and output; alone: that of how many such requests there are, which must be one."""

    name: str
    time: str
    unit: int
    prompt: str
    output: str
    others: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    failed: bool = False
    identity: tuple[str, int] | None = None
    number: str | None = None
    total: str | None = None
    alone: str | None = None
    sorted: bool = True

    @property
    def columns(self) -> set[str]:
        """That must be there."""
        checked = [self.identity and self.identity[0], self.number, self.total, self.alone]
        return {self.time, self.prompt, self.output, *self.others, *filter(None, checked)}

    def fits(self, names: list[str]) -> bool:
        """Whether a file with these columns is one."""
        return self.columns <= set(names) <= self.columns | set(self.optional) and len(set(names)) == len(names)


CSV = (
    RequestFormat("pimloom", "timestamp", DATE, "prompt_tokens", "output_tokens"),
    RequestFormat("Azure", "TIMESTAMP", DATE, "ContextTokens", "GeneratedTokens", optional=("NumImages",)),
    RequestFormat(
        "BurstGPT", "Timestamp", PS_PER_S, "Request tokens", "Response tokens", ("Model", "Log Type"),
        optional=("Session ID", "Elapsed time"), failed=True, total="Total tokens",
    ),
    RequestFormat(
        "Splitwise", "arrival_timestamp", PS_PER_S, "prompt_size", "token_size",
        ("request_type", "application_id"), number="request_id", alone="batch_size",
    ),
    RequestFormat("ticks", "arrival", PS_PER_US, "prompt", "output", optional=("group", "shared"), number="request"),
)  # fmt: skip
JSON_LINES = (
    RequestFormat("Mooncake", "timestamp", PS_PER_MS, "input_length", "output_length", identity=("hash_ids", 512)),
    RequestFormat(
        "LLMServingSim", "arrival_time_ns", PS_PER_NS, "input_toks", "output_toks",
        optional=("input_tok_ids", OUTPUT_IDS, "session_id", "request_id"), sorted=False,
    ),
    RequestFormat("APEX", "StartTimeOffset", PS_PER_NS, "ContextTokens", "GeneratedTokens"),
)  # fmt: skip


def described_formats(formats: tuple[RequestFormat, ...]) -> str:
    """Their columns, for a person.

    >>> described_formats(CSV[:2])
    'timestamp,prompt_tokens,output_tokens or TIMESTAMP,ContextTokens,GeneratedTokens'
    """
    return " or ".join(",".join(_told(each)) for each in formats)


def _told(one: RequestFormat) -> list[str]:
    first = [one.time, one.prompt, one.output]
    return [*first, *sorted(one.columns - {*first, *([one.identity[0]] if one.identity else [])})]
