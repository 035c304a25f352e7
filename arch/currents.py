"""Which currents of a DRAM exceed which: what a part or another tool's file must hold to give energies."""

from collections.abc import Iterator, Mapping

ABOVE = (  # name, what it exceeds in any device, why
    ("IDD3N", "IDD2N", "an open row takes more than none"),
    ("IDD0", "IDD2N", "a bank that opens and closes takes more than none open"),
    *((name, "IDD3N", "it is charged on top of it") for name in ("IDD4R", "IDD4W", "IDD5B", "IDD5PB")),
)


def contradictions(idd: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Of currents [mA] by JEDEC name: each that is not above the other one, that one, and why it should be."""
    for name, below, why in ABOVE:
        if name in idd and below in idd and idd[name] <= idd[below]:
            yield name, below, why
