"""Heads of attention as the systolic arrays see them."""

from collections.abc import Callable
from typing import NamedTuple


class Heads(NamedTuple):
    """Attention of one device on its arrays.

    kv_heads, shared: heads of keys and values, query heads that read the same ones; key_dim, value_dim: elements of a
    key and of a value; tile: rows and columns of an array; arrays: that share what streams through; softmax_cyc: of so
    many logits for each of so many rows, on all vector units [NPU cycles]; window: tokens that a token attends to,
    itself included, 0: all before it; values_in_keys: a value is the first elements of its key.
    """

    kv_heads: int
    shared: int
    key_dim: int
    value_dim: int
    tile: int
    arrays: int
    element_bytes: int
    softmax_cyc: Callable[[int, int], int]
    window: int = 0
    values_in_keys: bool = False

    @property
    def key_bytes(self) -> int:
        """Bytes of a key, or of a query."""
        return self.key_dim * self.element_bytes

    @property
    def value_bytes(self) -> int:
        """Bytes of a value, or of a result."""
        return self.value_dim * self.element_bytes
