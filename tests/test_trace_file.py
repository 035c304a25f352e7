"""Request traces are read right, in bounded memory, and what is wrong with one is said in a line."""

import bz2
import gzip
import lzma
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pimloom.arch.error import UserError
from pimloom.systems.memory.trace_file import read_trace, trace_size

GIB = 1 << 30
ANY = "0xADDRESS READ|WRITE CYCLE or LD|ST 0xADDRESS"
DRAMSIM3 = "0xADDRESS READ|WRITE CYCLE"


def requests(path, **options) -> list[tuple[int, int, int]]:
    """All requests: address, write, when."""
    found = []
    for chunk in read_trace(path, **options):
        assert {column.dtype for column in chunk} == {np.dtype(np.int64)}
        found += list(zip(*(column.tolist() for column in chunk), strict=True))
    return found


@pytest.fixture
def trace(tmp_path):
    """Writes a trace; returns its path."""

    def write(content: str | bytes, name: str = "t.trc") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def complaint(path: Path, **options) -> str:
    """What is said about the file, without its name."""
    with pytest.raises(UserError) as caught:
        requests(path, **options)
    said = str(caught.value)
    assert said.startswith(f"{path}:") and said.isprintable()
    return said.removeprefix(f"{path}:")


GOOD = {
    "0x40 READ 3\n0x80 WRITE 5\n": [(64, 0, 3), (128, 1, 5)],
    "ff P_FETCH 0\nFf write 0\n0XfF BOFF 1\n0 P_MEM_RD 1\n1 P_MEM_WR 9": [
        (255, 0, 0), (255, 1, 0), (255, 1, 1), (0, 0, 1), (1, 1, 9),
    ],
    "\ufeff0x1a40 FETCH 17\n1 Write 18\n2 wr 19\n": [(0x1A40, 0, 17), (1, 0, 18), (2, 0, 19)],
    "\ufeffLD 0x10\n": [(16, 0, 0)],
    "LD 0x10\nST 16\n": [(16, 0, 0), (16, 1, 0)],
    "LD 0x10 7\nST 010 7\n": [(16, 0, 7), (10, 1, 7)],
    "# a trace\r\n\r\n \t\n  0x1\tread   2 \r\n#0x2 READ\n   # x\n0x3 READ 2\r": [(1, 0, 2), (3, 0, 2)],
    "7fffffffffffffff READ 0": [(2**63 - 1, 0, 0)],
    "LD 9223372036854775807": [(2**63 - 1, 0, 0)],
    f"0x0000000000000000000000ff READ {2**59 - 1}": [(255, 0, 2**59 - 1)],
}  # fmt: skip


LONG_END = "\n#" + "." * 100  # lines far from the end are read in another way


@pytest.mark.parametrize("end", ["", LONG_END])
@pytest.mark.parametrize("text", GOOD)
def test_both_formats_in_all_their_spellings(trace, text, end):
    assert requests(trace(text + end)) == GOOD[text]
    assert requests(trace(text + end), chunk=1) == GOOD[text]


BEYOND = (
    "is beyond the capacity of 16 GiB (0x400000000); a larger part or more channels hold it, "
    "the controllers of the tools take it modulo that"
)
BAD = {
    "hello\n": f"1: expected {ANY}, got 'hello'",
    "0x40 READ\n": f"1: expected {ANY}, got '0x40 READ'",
    "# c\n\n0x4g REED 1\n": f"3: expected {ANY}, got '0x4g REED 1'",
    "0x40 READ 1\n0x40 READ 1 1\n": f"2: expected {DRAMSIM3}, got '0x40 READ 1 1'",
    "0x40 READ 1\nLD 0x40\n": f"2: expected {DRAMSIM3}, got 'LD 0x40'",
    "0x40 READ 1\n0xg READ 2\n": f"2: expected {DRAMSIM3}, got '0xg READ 2'",
    "0x40 READ 1\n0x READ 2\n": f"2: expected {DRAMSIM3}, got '0x READ 2'",
    "0x40 READ 1\n-40 READ 2\n": f"2: expected {DRAMSIM3}, got '-40 READ 2'",
    "0x40 READ 1\n0x40 READ 2.5\n": f"2: expected {DRAMSIM3}, got '0x40 READ 2.5'",
    "0x40 READ 1\n0x40 READ 2 # late\n": f"2: expected {DRAMSIM3}, got '0x40 READ 2 # late'",
    "0x40 READ 1\n\x1b[31m\x00é\n": f"2: expected {DRAMSIM3}, got '\\x1b[31m\\x00é'",
    "LD 0x40\nLD ff\n": "2: expected LD|ST 0xADDRESS, got 'LD ff'",
    "LD 0x40\nLD 0x40 3\n": "2: expected LD|ST 0xADDRESS, got 'LD 0x40 3'",
    "ST 0x40 3\nST 0x40\n": "2: expected LD|ST 0xADDRESS CYCLE, got 'ST 0x40'",
    f"0x40 READ 1\n{'x' * 100}\n": f"2: expected {DRAMSIM3}, got '{'x' * 60}...'",
    "0x8000000000000000 READ 1\n": "1: expected an address below 2^63, got 0x8000000000000000",
    "LD 9223372036854775808\n": "1: expected an address below 2^63, got 9223372036854775808",
    f"0x1 READ {2**59}\n": f"1: expected a cycle below 2^59, got {2**59}",
    f"0x1 READ {10**30}\n": f"1: expected a cycle below 2^59, got {10**30}",
    "0x400000000 READ 1": f"1: address 0x400000000 {BEYOND}",
    "400000000 READ 1": f"1: address 0x400000000 {BEYOND}",
    "LD 0x0\nLD 17179869184": f"2: address 0x400000000 {BEYOND}",
    "LD 0\n#\nST 0X500000000": f"3: address 0x500000000 {BEYOND}",
    "1 READ 3\n2 READ 20\n\n3 READ 17\n": "4: cycle 17 comes after cycle 20 of line 2: times must not decrease",
    "": " the trace is empty, expected lines of " + ANY,
    "# nothing\n\n": " the trace is empty, expected lines of " + ANY,
}


@pytest.mark.parametrize("end", ["", LONG_END])
@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_said_in_one_line(trace, text, end):
    assert complaint(trace(text + end), limit_bytes=16 * GIB) == BAD[text]


def test_words_that_dramsim3_takes_for_a_read_are_counted(trace):
    """`FETCH` is known; of DRAMsim3 every other word but four is a read, a `Write` too."""
    said = list[str]()
    file = trace("1 FETCH 0\n2 Write 1\n3 WRITE 2\n4 wr 3\n")
    assert requests(file, warn=said.append) == [(1, 0, 0), (2, 0, 1), (3, 1, 2), (4, 0, 3)]
    words = "2 requests have words that DRAMsim3 takes for a read, first in line 2"
    assert said == [f"{file}: {words}; WRITE, write, P_MEM_WR and BOFF are writes"]


def test_data_compressed_in_another_way_are_not_shown(tmp_path):
    for pack in (lzma.compress, bz2.compress):
        (tmp_path / "a.trc").write_bytes(pack(b"0x40 READ 1\n" * 99))
        said = complaint(tmp_path / "a.trc")
        assert said == f"1: expected {ANY}, got binary data, neither gzip nor zstd"


def test_what_the_tools_accept_is_a_warning_once_with_a_count(trace):
    path = trace("ffffffff READ 5\n0x10 READ 4\n100000000 READ 4\n1ffffffff WRITE 3\n0 READ 9\n")
    said: list[str] = []
    found = requests(path, limit_bytes=4 * GIB, wraps=True, ordered=False, warn=said.append, chunk=2)
    assert [address for address, _, _ in found] == [0xFFFFFFFF, 0x10, 0x100000000, 0x1FFFFFFFF, 0]
    assert said == [
        f"{path}: 2 addresses lie beyond the capacity of 4 GiB, first in line 3; taken modulo the capacity",
        f"{path}: 2 cycles are earlier than the one before, first in line 2; requests are served in the order of the "
        "file",
    ]
    said.clear()
    requests(path, ordered=False, limit_bytes=8 * GIB, warn=said.append)
    assert len(said) == 1
    requests(trace("LD 3\nLD 3\n"), limit_bytes=3, wraps=True, ordered=False, warn=said.append)
    assert said[1].endswith(
        "2 addresses lie beyond the capacity of 3 bytes, first in line 1; taken modulo the capacity"
    )


def test_files_that_cannot_be_read(tmp_path, trace):
    for read in (lambda path: list(read_trace(path)), trace_size):
        with pytest.raises(UserError, match=r"none\.trc: no such file$"):
            read(tmp_path / "none.trc")
        with pytest.raises(UserError, match=": is a folder, expected a file$"):
            read(tmp_path)
        with pytest.raises(UserError, match=": cannot be read: not a directory$"):
            read(trace("") / "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="permission bits do not bind root")
def test_a_file_without_permission(trace):
    path = trace("LD 0\n")
    path.chmod(0)
    assert complaint(path) == " cannot be read: permission denied"


LINES = "".join(f"{64 * i:#x} {'WRITE' if i % 3 else 'READ'} {i}\n" for i in range(200_000))
WANTED = [(64 * i, int(i % 3 > 0), i) for i in range(200_000)]
PACKED = {
    ".gz": gzip.compress(LINES.encode(), 1),
    ".zst": zstandard.ZstdCompressor().compress(LINES.encode()),
}


@pytest.mark.parametrize("name", ["t.trc", "t.trc.gz", "t.trc.zst", "gzip_by_content", "zstd_by_content"])
def test_compressed_traces_and_how_far_one_has_read(trace, name):
    kind = {"gzip_by_content": ".gz", "zstd_by_content": ".zst"}.get(name, Path(name).suffix)
    path = trace(PACKED.get(kind, LINES), name)
    seen: list[int] = []
    assert requests(path, progress=seen.append, chunk=30_000) == WANTED
    assert seen == sorted(seen) and seen[-1] == trace_size(path) == path.stat().st_size
    assert len(seen) > 3


@pytest.mark.parametrize("kind", PACKED)
def test_compressed_pieces_one_after_the_other(trace, kind):
    pack = gzip.compress if kind == ".gz" else zstandard.ZstdCompressor().compress
    text = pack(b"LD 1\nLD") + pack(b" 2\n") + pack(b"") + pack(b"LD 3")
    assert requests(trace(text, f"t{kind}")) == [(1, 0, 0), (2, 0, 0), (3, 0, 0)]


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("share", [0.001, 0.5, 0.99999])
def test_a_compressed_trace_that_is_cut_off(trace, kind, share):
    path = trace(PACKED[kind][: int(len(PACKED[kind]) * share)], f"t{kind}")
    assert complaint(path) == f" its {'gzip' if kind == '.gz' else 'zstd'} data ends too early; the file is cut off"


@pytest.mark.parametrize("kind", PACKED)
def test_damaged_data(trace, kind):
    damaged = bytearray(PACKED[kind])
    damaged[len(damaged) // 2 : len(damaged) // 2 + 9] = b"\xff" * 9
    said = complaint(trace(bytes(damaged), f"t{kind}"))
    assert said.startswith(f" is no intact {'gzip' if kind == '.gz' else 'zstd'} file: ") or ": expected " in said
    assert complaint(trace("LD 1\n", f"u{kind}")).startswith(" is no intact ")


def test_binary_junk_and_a_line_without_end_take_no_memory(trace):
    junk = trace(np.random.default_rng(1).integers(0, 256, 100_000, np.uint8).tobytes())
    assert complaint(junk) == f"1: expected {ANY}, got binary data, neither gzip nor zstd"
    start, long = f"1: a line has more than 4096 bytes, expected {ANY}, got '", b"0" * 10_000_000
    paths = [
        trace(long),
        trace(b"LD 0\n" + long, "second"),
        trace(zstandard.ZstdCompressor().compress(long * 10), "t.zst"),
        trace(gzip.compress(long, 1), "t.gz"),
    ]
    tracemalloc.start()
    assert complaint(paths[1]) == f"2: a line has more than 4096 bytes, expected LD|ST 0xADDRESS, got '{'0' * 60}...'"
    assert {complaint(path) for path in (paths[0], *paths[2:])} == {f"{start}{'0' * 60}...'"}
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50_000_000  # one file has 100 MB
    assert requests(trace(" " * 4090 + "LD 0\n")) == [(0, 0, 0)]
    assert complaint(trace(" " * 5000 + "LD 0\n")) == f"{start}'"


def naive(text: str) -> list[tuple[int, int, int]] | int:
    """The requests, or the number of the first wrong line."""
    found, form = [], ""
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.replace("\r", " ").split()
        if not fields or fields[0].startswith("#"):
            continue
        own = "ds" if fields[0] not in ("LD", "ST") else "r" if len(fields) == 2 else "rt"
        form = form or own
        try:
            assert own == form and len(fields) == {"ds": 3, "r": 2, "rt": 3}[form]
            assert not any("_" in field or "+" in field for field in (fields[0], fields[-1]))
            if form == "ds":
                address, write = int(fields[0], 16), int(fields[1] in ("WRITE", "write", "P_MEM_WR", "BOFF"))
            else:
                address, write = (
                    int(fields[1], 16 if fields[1].lower().startswith("0x") else 10),
                    int(fields[0] == "ST"),
                )
            found.append((address, write, int(fields[2]) if len(fields) > 2 else 0))
            assert 0 <= address < 2**63 and 0 <= found[-1][2] < 2**59
        except (AssertionError, ValueError, KeyError):
            return number
    return found


NUMBERS = ["0x40", "40", "ff", "0xG", "g", "0", "7", "18446744073709551616", "0xffffffffffffffff", "-1", "1.5"]
WORDS = st.sampled_from([*NUMBERS, "READ", "WRITE", "read", "LD", "ST", "#", "#x"])
BLANKS = st.sampled_from([" ", "\t", "  ", " \r"])
GOOD_LINES = st.one_of(
    st.builds(
        lambda a, op, t: f"{a:x} {op} {t}",
        st.integers(0, 2**63),
        st.sampled_from(["READ", "WRITE"]),
        st.integers(0, 2**60),
    ),
    st.builds(lambda op, a: f"{op} {a:#x}", st.sampled_from(["LD", "ST"]), st.integers(0, 2**63)),
)
ANY_LINES = st.lists(st.tuples(BLANKS, WORDS).map("".join), max_size=5).map("".join)


@given(
    st.lists(st.one_of(GOOD_LINES, ANY_LINES), max_size=12).map("\n".join),
    st.sampled_from([1, 3, 100]),
    st.sampled_from(["", LONG_END]),
)
def test_the_parser_is_the_naive_one(tmp_path_factory, text, chunk, end):
    path = tmp_path_factory.getbasetemp() / "hypothesis.trc"
    text += end
    path.write_text(text, newline="")
    wanted = naive(text)
    try:
        assert requests(path, ordered=False, chunk=chunk) == wanted
    except UserError as error:
        assert str(error).startswith(f"{path}:{wanted}: " if wanted else f"{path}: the trace is empty")
