"""Units: the one place that knows 8, 1000 and 1e-9, and the quantities that carry their unit in YAML.

A quantity type has `parse(value)`, which takes what YAML holds ('12 ns', or a list) and raises `ValueError`
with one sentence, and `expected`, which says what a good value looks like.
"""

import re
from fractions import Fraction
from typing import ClassVar, Self, SupportsIndex

BITS_PER_BYTE = 8
KIB = 1024
UM2_PER_MM2 = 10**6
MIB = 1024 * KIB
GIB = 1024 * MIB

NS_PER_S = 10**9
NS_PER_MS = 10**6
MS_PER_S = 1000
PS_PER_NS = 1000
PS_PER_US = 1000 * PS_PER_NS
PS_PER_MS = 1000 * PS_PER_US
PS_PER_S = 10**12
S_PER_H = 3600
S_PER_PS = 1e-12
S_PER_US = 1e-6
S_PER_MS = 1e-3
BYTES_PER_GB = 1e9
FLOP_PER_TFLOP = 1e12
HZ_PER_MHZ = 10**6
H_PER_DAY = 24
DAYS_PER_YEAR = 365
M_PER_KM = 1000

J_PER_PJ = 1e-12
W_PER_MW = 1e-3
J_PER_UJ = 1e-6
J_PER_MJ = 1e-3
PJ_PER_MW_PS = 1e-3
"""One milliwatt (one volt times one milliampere) for one picosecond, in pJ."""


def ceil_div(a: int, b: int) -> int:
    """The smallest integer not below a / b, exactly; b > 0.

    >>> ceil_div(7, 2), ceil_div(8, 2), ceil_div(-7, 2), ceil_div(10**30 + 1, 10)
    (4, 4, -3, 100000000000000000000000000001)
    """
    if b <= 0:
        raise ValueError(f"ceil_div divides by a positive integer, got {b}")
    return -(-a // b)


def mhz_to_ps(mhz: float) -> int:
    """The clock period nearest to a frequency in MHz, in whole ps; a tie goes to the even number.

    >>> mhz_to_ps(1000), mhz_to_ps(500), mhz_to_ps(1875), mhz_to_ps(0.5)
    (1000, 2000, 533, 2000000)
    """
    if not 0 < mhz < float("inf"):
        raise ValueError(f"expected a frequency > 0 MHz, got {mhz}")
    period_ps = round(Fraction(PS_PER_S, HZ_PER_MHZ) / Fraction(mhz))
    if period_ps == 0:
        raise ValueError(f"expected a frequency whose period is at least 1 ps, got {mhz} MHz")
    return period_ps


def ps_to_mhz(ps: int) -> float:
    """The clock [MHz] of a period.

    >>> ps_to_mhz(1000)
    1000.0
    """
    return 1e6 / ps


_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d\d?)?)\s*([A-Za-z]+)", re.ASCII)
_LONGEST = 40  # characters; longer text is no measurement, and exact arithmetic on it would be slow
_PS_PER = {"ps": 1, "ns": PS_PER_NS, "us": PS_PER_US, "ms": PS_PER_MS}
_INT64_MAX = 2**63 - 1


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _split(value: object, units: dict[str, int] | dict[str, Fraction], expected: str) -> tuple[Fraction, str]:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST else None
    if match is None or match[2] not in units:
        raise ValueError(f"expected {expected}, got {_shown(value)}")
    number = Fraction(match[1])
    if number < 0:
        raise ValueError(f"expected {expected.partition(' with')[0]} >= 0, got {_shown(value)}")
    return number, match[2]


class Time(tuple[int, int]):
    """A DRAM time: at least `ck` clocks and at least `ps` picoseconds, whichever is longer at the clock used.

    >>> Time.parse("12 ns"), Time.parse("24nCK"), Time.parse(["4 nCK", "7.5 ns"])
    (Time(ck=0, ps=12000), Time(ck=24, ps=0), Time(ck=4, ps=7500))
    >>> Time.parse(["4 nCK", "7.5 ns"]).cycles(533)
    15
    >>> Time.parse(12)
    Traceback (most recent call last):
    ValueError: expected a time with its unit, such as 12 ns, got 12
    """

    __slots__ = ()
    expected: ClassVar[str] = "a time with its unit, such as 12 ns"

    def __new__(cls, ck: int = 0, ps: int = 0) -> Self:
        if ck < 0 or ps < 0:
            raise ValueError(f"expected a time >= 0, got {ck} nCK, {ps} ps")
        return super().__new__(cls, (ck, ps))

    def __getnewargs__(self) -> tuple[SupportsIndex, ...]:
        return self.ck, self.ps

    def __repr__(self) -> str:
        return f"Time(ck={self.ck}, ps={self.ps})"

    @property
    def ck(self) -> int:
        return self[0]

    @property
    def ps(self) -> int:
        return self[1]

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read '12 ns' (or ps, us, ms), '24 nCK', or a list of one of each, of which the larger counts.

        Raises ValueError: unit missing, negative, finer than 1 ps or one clock, 2^63 or more.
        """
        if isinstance(value, list):
            return cls._parse_larger(value)
        number, unit = _split(value, {"nCK": 1, **_PS_PER}, cls.expected)
        count = number * _PS_PER.get(unit, 1)
        if count.denominator != 1:
            step = unit if unit == "nCK" else "ps"
            raise ValueError(f"expected a whole number of {step}, got {_shown(value)}")
        if count > _INT64_MAX:
            raise ValueError(f"expected a time below 2^63 ps, got {_shown(value)}")
        return cls(ck=int(count)) if unit == "nCK" else cls(ps=int(count))

    @classmethod
    def _parse_larger(cls, pair: list[object]) -> Self:
        texts = [v for v in pair if isinstance(v, str)]
        if len(pair) != 2 or len(texts) != 2 or sum(t.endswith("nCK") for t in texts) != 1:
            expected = "a time in nCK and one in ns, such as [4 nCK, 7.5 ns]"
            raise ValueError(f"expected {expected}, got {_shown(pair)}")
        one, other = map(cls.parse, texts)
        return cls(one.ck + other.ck, one.ps + other.ps)

    def cycles(self, tCK_ps: int) -> int:
        """Clocks this time takes at a clock period of tCK_ps > 0: the next whole clock, exactly."""
        return max(self.ck, ceil_div(self.ps, tCK_ps))


class _Measure(float):
    """A number >= 0 in one fixed unit, read from text with any unit in `units` (factor to the fixed unit)."""

    units: ClassVar[dict[str, Fraction]]
    unit: ClassVar[str]
    expected: ClassVar[str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({float.__repr__(self)})"

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read text such as `expected` names; ValueError: unit missing or wrong, number negative."""
        number, unit = _split(value, cls.units, cls.expected)
        return cls(number * cls.units[unit])


class Milliampere(_Measure):
    """A current in mA.

    >>> Milliampere.parse("122 mA"), Milliampere.parse("0.53 A")
    (Milliampere(122.0), Milliampere(530.0))
    """

    units = {"uA": Fraction(1, 1000), "mA": Fraction(1), "A": Fraction(1000)}
    unit = "mA"
    expected = "a current with its unit, such as 122 mA"


class Volt(_Measure):
    """A voltage in V.

    >>> Volt.parse("1.25 V"), Volt.parse("1250 mV")
    (Volt(1.25), Volt(1.25))
    """

    units = {"mV": Fraction(1, 1000), "V": Fraction(1)}
    unit = "V"
    expected = "a voltage with its unit, such as 1.25 V"
