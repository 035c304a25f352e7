"""What `pimloom rtl` prints."""

from collections.abc import Mapping, Sequence
from typing import Any

from pimloom.reports.rtl.published import beside_litedram
from pimloom.reports.terminal.tables import show_line, show_rows

Rows = Sequence[Mapping[str, Any]]


def show_blocks(found: Mapping[str, Rows]) -> None:
    """The blocks: what each is, needs, and can be told; the files that all folders have, and those of some."""
    rows = found["rows"]
    options = [" ".join(f"--{name.replace('_', '-')} {value}" for name, value in row["sizes"].items()) for row in rows]
    columns = [("block", "block", ""), ("summary", "summary", ""), ("needs", "needs", ""), ("options", "defaults", "")]
    show_rows(columns, [{**row, "options": told} for row, told in zip(rows, options, strict=True)])
    files = {file: [row["block"] for row in rows if file in row["files"]] for row in rows for file in row["files"]}
    show_line(f"emit BLOCK -o DIR/ writes {', '.join(file for file, its in files.items() if len(its) == len(rows))}")
    for file, its in files.items():
        if len(its) < len(rows):
            show_line(f"{file}: {', '.join(its)}")


def show_verified(found: Mapping[str, Any]) -> None:
    """Co-simulation: what was compared, what differed, and the rules that never decided anything."""
    show_rows(
        [
            ("block", "block", ""),
            ("commands", "compared|r", ",d"),
            ("mismatches", "mismatches|r", ",d"),
            ("bound", "rules that bound|r", ""),
            ("cycles", "cycles|r", ",d"),
            ("cycles_per_s", "cycles/s|r", ",.0f"),
        ],
        [{**row, "bound": _of(row["rules_bound"], row["rules_total"])} for row in found["rows"]],
    )
    show_line(f"part: {found['part']}; simulator: {found['rows'][0]['simulator']}")
    alone = len(found["rows"]) == 1
    if alone:
        _show_coverage(found["rows"][0])
    for row in found["rows"]:
        for rule, why in row["sleeping_rules"].items():
            show_line(f"{row['block']}: never decided a clock: {rule}: {why}")
        for what in ("first_mismatch", "waves"):
            if row.get(what):
                show_line(f"{row['block']}: {what.replace('_', ' ')}: {row[what]}")
    _show_left_out(found)


def show_proofs(found: Mapping[str, Any]) -> None:
    """Properties, and whether each is proved."""
    show_rows(
        [
            ("block", "block", ""),
            ("property", "property", ""),
            ("timings", "timings", ""),
            ("method", "method", ""),
            ("solver", "solver", ""),
            ("depth", "clocks|r", ",d"),
            ("result", "result", ""),
            ("covered", "covered", ""),
            ("twin_failed", "twins fail", ""),
            ("seconds", "s|r", ",.1f"),
        ],
        [{**row, "covered": _word(row["covered"]), "twin_failed": _word(row["twin_failed"])} for row in found["rows"]],
    )
    show_line(f"part: {found['part']}; covered: what the property is about was reached;")
    show_line("twins fail: blocks that are broken on purpose violate it")
    for row in found["rows"]:
        if row["trace"]:
            show_line(f"{row['property']}: counterexample: {row['trace']}")


def show_syntheses(found: Mapping[str, Any]) -> None:
    """Standard cells and FPGA resources."""
    show_rows(
        [
            ("block", "block", ""),
            ("cells", "cells|r", ",d"),
            ("memory_bits", "memory bits|r", ",d"),
            ("area_um2", "area µm²|r", ",.0f"),
            ("nand2_equivalents", "NAND2|r", ",.0f"),
            ("path_ps", "path ps|r", ",.0f"),
            ("lut4", "LUT4|r", ",d"),
            ("ff", "FF|r", ",d"),
            ("dsp", "DSP|r", ",d"),
            ("bram", "BRAM|r", ",d"),
            ("fmax_mhz", "Fmax MHz|r", ",.1f"),
        ],
        found["rows"],
    )
    row = found["rows"][0]
    sizes = "".join(f", {name.replace('_', ' ')} {value}" for name, value in found["sizes"].items())
    show_line(f"for {found['part']}{sizes}; cells to path: {row['library']}, no wires, memories beside;")
    show_line(f"LUT4 to Fmax: {row['fpga']}, with a register at every port for Fmax")
    if any(row["block"] == "sequencer_axi" for row in found["rows"]):
        show_line(f"beside sequencer_axi: {beside_litedram()}")
    if apart := [row["block"] for row in found["rows"] if row["method"] != "flat"]:
        show_line(f"{', '.join(apart)}: each module once, times its instances, not shrunk by constants;")
        show_line("path and Fmax: of the slowest module, placed by itself; one piece: --flat")
    _show_left_out(found)


def show_power(found: Mapping[str, Any]) -> None:
    """Power of a block, and what it is made of."""
    show_rows(
        [
            ("block", "block", ""),
            ("cells", "cells|r", ",d"),
            ("operations", "operations|r", ",d"),
            ("clocks", "clocks|r", ",d"),
            ("activity", "changes a net and clock|r", ".3f"),
            ("switching_mw", "switching mW|r", ",.4g"),
            ("internal_mw", "internal mW|r", ",.4g"),
            ("leakage_mw", "leakage mW|r", ",.3g"),
            ("power_mw", "power mW|r", ",.4g"),
            ("energy_per_operation_nj", "nJ an operation|r", ",.4g"),
        ],
        found["rows"],
    )
    row = found["rows"][0]
    show_line(f"for {found['part']}, at {row['clock_mhz']:g} MHz; {row['library']}: pins and cells, without wires,")
    show_line(f"clock tree and glitches; stimuli of rtl verify, seed {found['seed']}; mismatches: {row['mismatches']}")
    if row["first_mismatch"]:
        show_line(f"{row['block']}: first mismatch: {row['first_mismatch']}")


def differing(rows: Rows) -> list[str]:
    """Blocks whose gates and model differ, with the number of differences."""
    return [f"{row['mismatches']:,} in {row['block']}" for row in rows if row["mismatches"]]


def unproved(rows: Rows) -> list[str]:
    """Properties that do not hold, or whose proof says nothing: no situation reached, or a broken twin passes."""
    bad = (row for row in rows if row["result"] == "FAILED" or False in (row["covered"], row["twin_failed"]))
    return [f"{row['property']} ({row['timings']})" for row in bad]


def _show_coverage(row: Mapping[str, Any]) -> None:
    """Which rule decided a clock, and where first."""
    if row["coverage"]:
        lines = [{"rule": rule, "case": case} for rule, case in row["coverage"].items()]
        show_rows([("rule", "rule", ""), ("case", "first decides in case|r", "d")], lines)


def _show_left_out(found: Mapping[str, Any]) -> None:
    for block, why in found["left_out"].items():
        show_line(f"left out: {block}: {why}")


def _of(some: int | None, all_: int | None) -> str | None:
    return f"{some} of {all_}" if all_ else None


def _word(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"
