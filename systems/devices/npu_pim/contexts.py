"""How much of a context a request attends to, and keeps a cache of."""

import numpy as np

from pimloom.arch.llm import LlmSpec


def attended(llm: LlmSpec, tokens: np.ndarray) -> np.ndarray:
    """int64 tokens, of each context at most the model's sliding window: the rest is neither read nor kept. Where some
    layers see all, the whole context.

    A cache is a ring of as many slots as the window has tokens, as Mistral's is [recalled]: no page is half outside.

    >>> from msgspec.structs import replace
    >>> from pimloom.arch.llm import load_llm
    >>> attended(replace(load_llm("gpt2"), sliding_window=4), np.array([3, 4, 5])).tolist()
    [3, 4, 4]
    """
    return tokens if llm.widest_window is None else np.minimum(tokens, llm.widest_window)
