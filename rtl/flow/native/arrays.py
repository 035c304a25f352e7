"""Arrays as the C++ benches read and write them: a line `NAME SIZE N DIMENSION…`, then the bytes, little-endian."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

KINDS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}


def write_raw(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Names as lines of text; numbers as they are, one byte a bool."""
    with path.open("wb") as out:
        for name, array in arrays.items():
            data = np.frombuffer("\n".join(array.tolist()).encode(), np.uint8) if array.dtype.kind == "U" else array
            out.write(" ".join(map(str, (name, data.itemsize, data.ndim, *data.shape))).encode() + b"\n")
            out.write(np.ascontiguousarray(data).astype(data.dtype.newbyteorder("<"), copy=False).tobytes())


def read_raw(path: Path) -> dict[str, np.ndarray]:
    """What a bench left: eight bytes are int64, `seconds` float64; fewer are unsigned."""
    found, data, at = dict[str, np.ndarray](), path.read_bytes(), 0
    while at < len(data):
        end = data.index(b"\n", at)
        name, size, _, *shape = data[at:end].decode().split()
        kind = np.dtype(np.float64 if name == "seconds" else KINDS[int(size)])
        count = int(np.prod([int(n) for n in shape], dtype=np.int64))
        found[name] = np.frombuffer(data, kind, count, end + 1).reshape([int(n) for n in shape])
        at = end + 1 + count * kind.itemsize
    return found
