"""Strict YAML and JSON: sources and comments, overrides, and the one line for each kind of bad file."""

import doctest
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from pimloom.arch import document
from pimloom.arch.error import UserError
from pimloom.arch.load import Source, load_json, load_tree, load_yaml
from pimloom.arch.units import Milliampere, Time


class Dram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    channels: Annotated[int, Meta(gt=0)]
    kind: Literal["gddr6", "hbm2"]


class Timing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tRCD: Time
    tRP: Time


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    gbps: Annotated[float, Meta(gt=0)]
    name: str = "link"

    def __post_init__(self) -> None:
        if self.name == "broken":
            raise ValueError("expected a link that works, got broken")


class System(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dram: Dram
    timing: Timing
    current: dict[str, Milliampere] = {}
    links: tuple[Link, ...] = ()
    refresh: bool = True
    ratio: Annotated[float, Meta(ge=0, le=1)] | None = None
    banks: dict[str, dict[str, Annotated[int, Meta(ge=1, le=4)]]] = {}


GOOD = """\
# a system
dram:  # the DRAM
  channels: 8  # two dies
  kind: gddr6
timing:
  tRCD: 14 ns  # table 3
  tRP: [4 nCK, 14 ns]
current: {IDD0: 122 mA}  # assumed
links:
  - gbps: 1e3
  - {gbps: 2, name: "#2"}  # the second
"""


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(text: str | bytes, name: str = "s.yaml") -> Path:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return Path(name)


def error_of(text: str | bytes, type_: Any = System, overrides: Mapping[str, str] | None = None) -> str:
    with pytest.raises(UserError) as error:
        load_yaml(put(text), type_, overrides or {})
    assert "\n" not in str(error.value)
    return str(error.value)


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_doctests() -> None:
    assert doctest.testmod(document) == (0, 1)


def test_a_good_file() -> None:
    value = load_yaml(put(GOOD), System).value
    assert value.dram == Dram(8, "gddr6")
    assert value.timing == Timing(Time(ps=14_000), Time(4, 14_000))
    assert value.current == {"IDD0": 122.0}
    assert value.links == (Link(1000.0), Link(2.0, "#2"))


def test_each_place_knows_where_it_was_written() -> None:
    sources = load_yaml(put(GOOD), System).sources
    assert sources["dram"] == Source("s.yaml", 2, "the DRAM")
    assert sources["dram.channels"] == Source("s.yaml", 3, "two dies")
    assert sources["dram.kind"] == Source("s.yaml", 4, "")
    assert sources["timing.tRP[0]"] == Source("s.yaml", 7, "")
    assert sources["current.IDD0"] == Source("s.yaml", 8, "assumed")
    assert sources["links[1].name"] == Source("s.yaml", 11, "the second")
    assert "" not in sources


@pytest.mark.parametrize(
    ("yaml", "comment"),
    [
        ("a: 1", ""),
        ("a: 1  #   spaced out  ", "spaced out"),
        ("a: 1 # one # two", "one # two"),
        ("a: x#y", ""),
        ("a: x#y #z", "z"),
        ("a: '# no' # yes", "yes"),
        ("a: 'it''s # no' # yes", "yes"),
        ('a: "\\" # no" # yes', "yes"),
        ('"a": [1, "# no"] # yes', "yes"),
        ("a: {b: '# no', c: 2} # yes", "yes"),
        ("a: # on the key\n  b: 1 # below", "on the key"),
        ("a: # on the key\n  - 1 # below", "on the key"),
        ("a: # on the key\n  14 ns # on the value", "on the value"),
        ("a: [1, # first\n  2] # last", "last"),
        ("a: | # header\n  # no\n  text", "header"),
        ("a: 'b\n  # no' # yes", "yes"),
        ("a: b\n  c # yes", "yes"),
        ("a:  # empty", "empty"),
        ("a: # nothing\nb: 1", "nothing"),
        ("\ufeffa: 1 # after a byte order mark", "after a byte order mark"),
        ("a: 1 # windows\r\nb: 2", "windows"),
    ],
)
def test_comment(yaml: str, comment: str) -> None:
    assert load_tree(put(yaml))[1]["a"] == Source("s.yaml", 1, comment)


def test_a_scalar_that_goes_on_below_hides_its_first_line() -> None:
    sources = load_tree(put("a:\n  - b: 'c # no\n      d' # why"))[1]
    assert [sources[place].text for place in ("a[0]", "a[0].b")] == ["", "why"]


@given(st.text(st.sampled_from("ab #'\"\\:[]{},|>&*!%-?~\t"), max_size=12), st.sampled_from("'\""))
def test_a_quoted_scalar_never_leaks_into_the_comment(text: str, quote: str) -> None:
    inside = text.replace("'", "''") if quote == "'" else text.replace("\\", "\\\\").replace('"', '\\"')
    tree, sources = load_tree(put(f"a: {quote}{inside}{quote} # why\nb: [{quote}{inside}{quote}] # where"))
    assert tree == {"a": text, "b": [text]}
    assert [sources[place].text for place in ("a", "b", "b[0]")] == ["why", "where", "where"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("", None), ("~", None), ("null", None), ("true", True), ("false", False), ("0", 0), ("-12", -12)],
        *[("1e3", 1000.0), ("+.5", 0.5), ("2.", 2.0), ("1.5E-3", 0.0015), ("9223372036854775807", 2**63 - 1)],
        *[(word, word) for word in ("no", "on", "Yes", "True", "NULL", "012", "0o17", "0x1F", "1_000", "12:30")],
        *[(word, word) for word in ("2020-01-01", "=", "<<", "nan", "1e", "e3", ".", "14 ns", "٣")],
        *[("'1'", "1"), ('"true"', "true"), ("'.nan'", ".nan")],
    ],
)
def test_scalars_are_yaml_1_2(text: str, value: object) -> None:
    got = load_tree(put(f"a: {text}"))[0]["a"]
    assert (got, type(got)) == (value, type(value))


def test_keys_are_text() -> None:
    assert load_tree(put("no: 1\n1: 2\n<<: {a: 3}"))[0] == {"no": 1, "1": 2, "<<": {"a": 3}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # Not our kind of YAML
        ("", "s.yaml: the file is empty"),
        ("# only words\n", "s.yaml: the file is empty"),
        (b"a: 1\nb: \xff\n", "s.yaml:2: expected UTF-8 text, got byte 0xff"),
        ("a: 1\n---\nb: 2\n", "s.yaml:2: expected one document, got a second"),
        (
            "a: 1\nb: [1, 2\nc: 3\n",
            "s.yaml:3: not YAML: expected ',' or ']', but got ':', while parsing a flow sequence that begins in line 2",
        ),
        (
            'a: 1\nb: "c\nd: 3\n',
            "s.yaml:4: not YAML: found unexpected end of stream, while scanning a quoted scalar that begins in line 2",
        ),
        ("b: 'c", "s.yaml:1: not YAML: found unexpected end of stream"),
        ("a: 1\n\tb: 2\n", "s.yaml:2: not YAML: found character '\\t' that cannot start any token"),
        ("a: 1\nb: \x00\n", "s.yaml:2: not YAML: unprintable character 0x0"),
        ("[" * 1000, "s.yaml:1: nested too deeply, expected at most 64 levels"),
        ("a: &x 1\nb: *x\n", "s.yaml:1: anchors and aliases are not allowed, write the value out"),
        ("a: 1\nb: *x\n", "s.yaml:2: anchors and aliases are not allowed, write the value out"),
        ("a: !!python/name:os.system 1\n", "s.yaml:1: tags are not allowed, got !!python/name:os.system"),
        ("a: !!int 1\n", "s.yaml:1: tags are not allowed, got !!int"),
        ("a: 1\na: 2\n", "s.yaml:2: at $: duplicate key 'a', first on line 1"),
        ("t:\n  a: 1\n  'a': 2\n", "s.yaml:3: at $.t: duplicate key 'a', first on line 2"),
        ("t:\n  a.b: 1\n", "s.yaml:2: at $.t: expected a key without dots and brackets, got 'a.b'"),
        ("? [a]\n: 1\n", "s.yaml:1: at $: expected a key without dots and brackets, got a list or mapping"),
        ("a: .nan\n", "s.yaml:1: at $.a: expected a finite number, got .nan"),
        ("a:\n  - -.inf\n", "s.yaml:2: at $.a[0]: expected a finite number, got -.inf"),
        ("a: 1e999\n", "s.yaml:1: at $.a: expected a finite number, got 1e999"),
        (
            "a: -9223372036854775808\n",
            "s.yaml:1: at $.a: expected a number below 2^63, got -9223372036854775808",
        ),
        # Not the shape we want
        ("- 1\n", "s.yaml:1: at $: expected a mapping, got a list"),
        ("\n\n7\n", "s.yaml:3: at $: expected a mapping, got 7"),
        (changed("channels: 8", "channels: 0"), "s.yaml:3: at $.dram.channels: expected int >= 1, got 0"),
        (
            changed("channels: 8", "channels: true"),
            "s.yaml:3: at $.dram.channels: expected int >= 1, got true",
        ),
        (changed("channels: 8", "channels: 8.0"), "s.yaml:3: at $.dram.channels: expected int >= 1, got 8.0"),
        (changed("channels: 8", "channels: '8'"), "s.yaml:3: at $.dram.channels: expected int >= 1, got '8'"),
        (changed("channels: 8", "channels:"), "s.yaml:3: at $.dram.channels: expected int >= 1, got nothing"),
        (changed("gddr6", "gddr5"), "s.yaml:4: at $.dram.kind: expected one of gddr6, hbm2, got gddr5; nearest: gddr6"),
        (
            changed("  channels: 8  # two dies\n", ""),
            "s.yaml:2: at $.dram: missing key 'channels' (expected int >= 1)",
        ),
        (
            changed("  tRP: [4 nCK, 14 ns]\n", ""),
            "s.yaml:5: at $.timing: missing key 'tRP' (expected a time with its unit, such as 12 ns)",
        ),
        ("timing: {tRCD: 1 ns, tRP: 1 ns}", "s.yaml:1: at $: missing key 'dram' (expected a mapping)"),
        (
            changed("tRCD", "tRDC"),
            "s.yaml:6: at $.timing: unknown key 'tRDC', expected one of tRCD, tRP; nearest: tRCD",
        ),
        (
            changed("kind: gddr6", "kind: gddr6\n  xyz: 1"),
            "s.yaml:5: at $.dram: unknown key 'xyz', expected one of channels, kind",
        ),
        (
            changed("14 ns  # table 3", "14"),
            "s.yaml:6: at $.timing.tRCD: expected a time with its unit, such as 12 ns, got 14",
        ),
        (
            changed("14 ns  # table 3", "-14 ns"),
            "s.yaml:6: at $.timing.tRCD: expected a time >= 0, got -14 ns",
        ),
        (
            changed("{IDD0: 122 mA}", "{IDD0: 122 mA, IDD2N: 1 V}"),
            "s.yaml:8: at $.current.IDD2N: expected a current with its unit, such as 122 mA, got 1 V",
        ),
        (changed("{IDD0: 122 mA}", "7"), "s.yaml:8: at $.current: expected a mapping, got 7"),
        (changed("gbps: 1e3", "gbps: 0"), "s.yaml:10: at $.links[0].gbps: expected number > 0, got 0"),
        (changed('"#2"', "2"), "s.yaml:11: at $.links[1].name: expected text, got 2"),
        (changed('"#2"', "broken"), "s.yaml:11: at $.links[1]: expected a link that works, got broken"),
        (
            changed("gbps: 1e3", "gbsp: 1"),
            "s.yaml:10: at $.links[0]: unknown key 'gbsp', expected one of gbps, name; nearest: gbps",
        ),
        (
            GOOD + "links2: []\n",
            "s.yaml:12: at $: unknown key 'links2', expected one of dram, timing, current, "
            "links, refresh, ratio, banks; nearest: links",
        ),
        (GOOD + "refresh: no\n", "s.yaml:12: at $.refresh: expected true or false, got no"),
        (GOOD + "ratio: 1.5\n", "s.yaml:12: at $.ratio: expected number >= 0 and <= 1 or null, got 1.5"),
        (
            GOOD + "banks:\n  a: {x: 1, y: 4}\n  b: {x: 1,\n    y: 5}\n",
            "s.yaml:15: at $.banks.b.y: expected int >= 1 and <= 4, got 5",
        ),
        (
            GOOD + "banks: {a: {x: 1, y: 9}, b: {x: 9}}\n",
            "s.yaml:12: at $.banks.a.y: expected int >= 1 and <= 4, got 9",
        ),
        (
            GOOD + "banks: {a: {y: 1}, b: {x: 9}, c: {y: 9}}\n",
            "s.yaml:12: at $.banks.b.x: expected int >= 1 and <= 4, got 9",
        ),
        (
            changed("channels: 8", "channels: [1, 2, 3, 'a longer text than one wants to see', 'and more of it']"),
            "s.yaml:3: at $.dram.channels: expected int >= 1, "
            "got [1, 2, 3, 'a longer text than one wants to see', 'and more o...",
        ),
    ],
)
def test_bad_yaml_is_one_line(text: str | bytes, said: str) -> None:
    assert error_of(text) == said


def test_a_tuple_of_fixed_length() -> None:
    pair = dict[str, tuple[int, int]]
    assert error_of("a: [1, 2]\nb: [1]\n", pair) == "s.yaml:2: at $.b: expected a list of 2, got [1]"
    assert error_of("a: [1, x]\n", pair) == "s.yaml:1: at $.a[1]: expected int, got x"


def test_override() -> None:
    overrides = {
        "timing.tRCD": "15ns",
        "timing.tRP": "[8 nCK, 2 ns]",
        "links[1].gbps": "4",
        "refresh": "false",
    }
    loaded = load_yaml(put(GOOD + "refresh: true\n"), System, overrides)
    assert loaded.value.timing == Timing(Time(ps=15_000), Time(8, 2_000))
    assert (loaded.value.links[1].gbps, loaded.value.refresh) == (4.0, False)
    assert loaded.sources["timing.tRCD"] == Source("--set", 0, "")
    assert loaded.sources["timing.tRP[1]"] == Source("--set", 0, "")
    assert loaded.sources["links[0].gbps"].line == 10


class Quirks(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    late: bool = False
    lost: bool = False


class Odd(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    quirks: Quirks = Quirks()


def test_a_section_that_may_be_left_out_is_set_as_if_it_were_written() -> None:
    for text in ("name: a\n", "name: a\nquirks: {late: false}\n"):
        plain, late = (load_yaml(put(text), Odd, some) for some in ({}, {"quirks.lost": "true"}))
        assert (plain.value.quirks, late.value.quirks) == (Quirks(), Quirks(lost=True))
        assert plain.sources["quirks.lost"] == Source("s.yaml", 0, "default")
        assert late.sources["quirks.lost"] == Source("--set", 0, "")
    assert load_yaml(put(text), Odd).sources["quirks.late"].line == 2
    assert "; nearest: quirks.lost" in error_of("name: a", Odd, {"quirks.lots": "true"})
    assert error_of("name: a", Odd, {"quirks": "true"}).endswith("is a mapping, set one of its keys: late, lost")
    assert error_of("name: a", Odd, {"quirks.lost": "3"}) == "--set quirks.lost: expected true or false, got 3"
    assert error_of("name: a\nquirks: 3", Odd) == "s.yaml:2: at $.quirks: expected a mapping, got 3"
    assert error_of("[1]", Odd) == "s.yaml:1: at $: expected a mapping, got [1]"


def test_override_of_a_list_forgets_its_old_items() -> None:
    tree, sources = load_tree(put("a: [1, 2, 3]\nab: 1\n"), {"a": "[4]"})
    assert tree == {"a": [4], "ab": 1}
    assert list(sources) == ["a", "ab", "a[0]"]


@pytest.mark.parametrize(
    ("place", "text", "said"),
    [
        (
            "timing.tRDC",
            "1 ns",
            "--set timing.tRDC: no such key in s.yaml; nearest: timing.tRCD, timing.tRP, timing.tRP[1]",
        ),
        ("tRCD", "1 ns", "--set tRCD: no such key in s.yaml; nearest: timing.tRCD"),
        ("", "1", "--set : no such key in s.yaml; expected one of dram, timing, current, links"),
        ("zzz", "1", "--set zzz: no such key in s.yaml; expected one of dram, timing, current, links"),
        (
            "links[2].gbps",
            "1",
            "--set links[2].gbps: no such key in s.yaml; nearest: links[1].gbps, links[0].gbps, links[1]",
        ),
        ("timing", "1", "--set timing: is a mapping, set one of its keys: tRCD, tRP"),
        ("timing.tRCD", "14", "--set timing.tRCD: expected a time with its unit, such as 12 ns, got 14"),
        ("timing.tRCD", "", "--set timing.tRCD: expected a time with its unit, such as 12 ns, got nothing"),
        ("dram.channels", "-1", "--set dram.channels: expected int >= 1, got -1"),
        ("dram.channels", ".inf", "--set dram.channels: expected a finite number, got .inf"),
        ("dram.channels", "[1", "--set dram.channels: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("dram.channels", "# no", "--set dram.channels: no value"),
        ("dram.channels", "{a: 1, a: 2}", "--set dram.channels: duplicate key 'a'"),
        ("links", "[{gbps: 0}]", "--set links[0].gbps: expected number > 0, got 0"),
    ],
)
def test_bad_override(place: str, text: str, said: str) -> None:
    assert error_of(GOOD, overrides={place: text}) == said


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for load in (load_tree, load_json):
        for path, said in {
            "parts/none.yaml": "parts/none.yaml: no such file",
            str(tmp_path): f"{tmp_path}: is a folder, expected a file",
            "x" * 300: f"{'x' * 300}: cannot be read: file name too long",
            "a\0b": "a\\x00b: expected a name of printable characters on one line; rename the file",
        }.items():
            with pytest.raises(UserError) as error:
                load(Path(path))
            assert str(error.value) == said


def test_a_good_json() -> None:
    text = '\ufeff{"a": [1, 2.5e3, -0, true, null],\n\t"b": {"a": "a: \\"NaN\\" {", "c": 1}, "c": {}}'
    assert load_json(put(text)) == {"a": [1, 2500.0, 0, True, None], "b": {"a": 'a: "NaN" {', "c": 1}, "c": {}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.yaml: the file is empty"),
        ('{"a":\n1 2}', "s.yaml:2: not JSON: Expecting ',' delimiter"),
        ("{'a': 1}", "s.yaml:1: not JSON: Expecting property name enclosed in double quotes"),
        ('{"a": 1,\n "b": {"a": 1,\n "\\u0061": 2}}', "s.yaml:3: duplicate key 'a', first on line 2"),
        ('{"a": 1, "a": 1}', "s.yaml:1: duplicate key 'a', first on line 1"),
        ('{"a": [1,\nNaN]}', "s.yaml:2: expected a finite number, got NaN"),
        ('{"a": -Infinity}', "s.yaml:1: expected a finite number, got -Infinity"),
        ('{"a": 1e999}', "s.yaml:1: expected a finite number, got 1e999"),
        ("[" * 100_000, "s.yaml: not JSON we can read: nested too deeply or a number too long"),
        ("9" * 5000, "s.yaml: not JSON we can read: nested too deeply or a number too long"),
        (b"{\n\xff}", "s.yaml:2: expected UTF-8 text, got byte 0xff"),
    ],
)
def test_bad_json_is_one_line(text: str | bytes, said: str) -> None:
    with pytest.raises(UserError) as error:
        load_json(put(text))
    assert str(error.value) == said


def test_keys_are_places_only_where_they_may_be() -> None:
    text = "axes:\n  dram.x: 1\n  'links[0].y': {a: 2}\n"
    free = document.Document("f.yaml", text, free=("axes",))
    assert free.tree == {"axes": {"dram.x": 1, "links[0].y": {"a": 2}}}
    assert free.sources["axes.dram.x"].line == 2
    with pytest.raises(UserError, match=r"^f.yaml:2: at \$.axes: expected a key without dots and brackets"):
        document.Document("f.yaml", text)
    with pytest.raises(UserError, match=r"^f.yaml:2: at \$.axes.a: expected a key without dots and brackets"):
        document.Document("f.yaml", "axes:\n  a: {b.c: 1}\n", free=("axes",))
    with pytest.raises(UserError, match=r"^f.yaml:2: at \$.axes: expected a key on one line"):
        document.Document("f.yaml", 'axes:\n  "a\\nb": 1\n', free=("axes",))
