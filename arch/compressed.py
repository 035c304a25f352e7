"""Reads files that may be compressed (gzip, zstd), block by block in bounded memory."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pimloom.arch.error import UserError
from pimloom.arch.inputs import open_input
from pimloom.arch.units import GIB

BLOCK_BYTES = 1 << 20
ZSTD_BYTES = 1 << 8  # of compressed data at a time: they can grow 30,000-fold
MAGIC = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
GZIP_LEVEL, ZSTD_LEVEL = 1, 3  # of what we write: speed first
MOST_GROWTH, LEAST_BOMB_BYTES = 1000, GIB  # text grows 3 to 300-fold; below 1 GiB any growth is fine


def plain_suffix(path: Path) -> str:
    """The suffix of a file's name, without the suffix of the compression.

    >>> plain_suffix(Path("a/requests.csv.gz")), plain_suffix(Path("b.json"))
    ('.csv', '.json')
    """
    return path.with_suffix("").suffix if path.suffix in MAGIC else path.suffix


def file_size(path: str | Path) -> int:
    """The size of the file as stored, compressed or not [bytes]; 0 for a pipe. Raises UserError if it cannot be read.
    """
    if Path(path).is_fifo():  # who writes to it waits for one reader, not for two
        return 0
    with open_input(Path(path)) as file:
        end = file.seek(0, io.SEEK_END) if file.seekable() else 0
        return int(end)


def read_blocks(path: str | Path, progress: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """The content, decompressed, in blocks of about 1 MiB; compression is known by suffix or by the first bytes.

    progress receives the number of stored bytes read so far. Raises UserError, also for a file that grows too much (a
    decompression bomb).
    """
    path = Path(path)
    with open_input(path) as file:
        counted: Any = _Counted(file, progress)
        first = file.peek(4)
        kinds = [kind for kind, magic in MAGIC.items() if path.suffix == kind or first.startswith(magic)]
        if not kinds:
            yield from iter(lambda: counted.read(BLOCK_BYTES), b"")
            return
        size = 0
        for block in _gzip(path, counted) if kinds[0] == ".gz" else _zstd(path, counted):
            size += len(block)
            if size > max(LEAST_BOMB_BYTES, MOST_GROWTH * counted.total):
                grown = f"grows more than {MOST_GROWTH:,}-fold when it is decompressed"
                raise UserError(f"{path}: {grown}; decompress it first, if it is meant to")
            yield block


@contextmanager
def compressing(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    """A file that compresses into `file`, by the suffix: `.gz`, `.zst`, or no compression for others."""
    if suffix == ".gz":
        import gzip

        with gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0) as packed:
            yield packed  # type: ignore[misc]
    elif suffix == ".zst":
        import zstandard  # its library takes longer to load than a short trace

        with zstandard.ZstdCompressor(level=ZSTD_LEVEL).stream_writer(file, closefd=False) as packed:
            yield packed
    else:
        yield file


class _Counted:
    """Reads from a file and counts the bytes."""

    def __init__(self, file: io.BufferedReader, progress: Callable[[int], None]) -> None:
        self.file, self.progress, self.total = file, progress, 0

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.total += len(data)
        self.progress(self.total)
        return data


def _gzip(path: Path, counted: Any) -> Iterator[bytes]:
    import gzip
    import zlib

    file = gzip.GzipFile(fileobj=counted)
    try:
        yield from iter(lambda: file.read(BLOCK_BYTES), b"")
    except EOFError:
        raise UserError(f"{path}: its gzip data ends too early; the file is cut off") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}: is no intact gzip file: {str(error).lower()}") from None


def _zstd(path: Path, counted: Any) -> Iterator[bytes]:
    """Blocks of a zstd file. Raises if data ends early, which a stream reader does not notice."""
    import zstandard

    frame, data = None, b""
    found: list[bytes] = []
    size = 0
    try:
        while data := data or counted.read(ZSTD_BYTES):
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            found.append(frame.decompress(data))
            size += len(found[-1])
            data = b""
            if frame.eof:
                data, frame = frame.unused_data, None
            if size >= BLOCK_BYTES:
                yield b"".join(found)
                found, size = [], 0
    except zstandard.ZstdError as error:
        raise UserError(f"{path}: is no intact zstd file: {str(error).lower()}") from None
    if frame:
        raise UserError(f"{path}: its zstd data ends too early; the file is cut off")
    yield b"".join(found)
