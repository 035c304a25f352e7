"""Values as an Arrow array, without pandas: `pyarrow.array` imports it, which takes longer than all the rest."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_PLAIN = {pa.int64(): np.int64, pa.float64(): np.float64}
_LARGEST_OFFSET = 2**31 - 1


def array_of(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """The values, all of `type_` or None, as an array.

    type_: null, bool, int64, float64, string or binary. OverflowError for text of 2 GiB in all, or an int beyond int64.
    """
    if type_ == pa.null():
        return pa.nulls(len(values))
    known = [value is not None for value in values]
    valid = None if all(known) else _bits(known)
    if type_ in (pa.string(), pa.binary()):
        parts = [_encoded(value) for value in values]
        ends = np.cumsum([0, *map(len, parts)])
        if ends[-1] > _LARGEST_OFFSET:
            raise OverflowError("more than 2 GiB of text in one column")
        buffers = [valid, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(parts))]
    elif type_ == pa.bool_():
        buffers = [valid, _bits([value is True for value in values])]
    else:
        plain = [0 if value is None else value for value in values]
        buffers = [valid, pa.py_buffer(np.array(plain, _PLAIN[type_]))]
    return pa.Array.from_buffers(type_, len(values), buffers)


def _encoded(value: object) -> bytes:
    match value:
        case str():
            return value.encode()
        case bytes():
            return value
    return b""


def _bits(flags: Sequence[bool]) -> pa.Buffer:
    """A bit for each flag, the first one lowest."""
    return pa.py_buffer(np.packbits(np.array(flags, np.bool_), bitorder="little"))
