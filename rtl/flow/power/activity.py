"""How often each net of a run changed, read from its waveform (VCD) in a stream."""

from collections import Counter
from pathlib import Path

CHUNK = 1 << 24


def toggles(waveform: Path) -> dict[str, int]:
    """Changes of each signal of one bit, by its name; the values that a run begins with are none."""
    counts: Counter[bytes] = Counter()
    ids = dict[str, bytes]()
    with waveform.open("rb") as file:
        for line in file:
            words = line.split()
            if words[:1] == [b"$var"] and words[2] == b"1":
                ids.setdefault(words[4].decode(), words[3])
            elif words[:1] == [b"$enddefinitions"]:
                break
        rest = b""
        while chunk := file.read(CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            counts.update(line for line in lines if line[:1] in b"01" and line)
        counts.update([rest] if rest[:1] in b"01" and rest else [])
    return {name: max(0, counts[b"0" + each] + counts[b"1" + each] - 1) for name, each in ids.items()}
