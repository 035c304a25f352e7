"""Verilog of a component."""

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from unittest.mock import patch

from amaranth.back import verilog
from amaranth.lib.wiring import Component

MODULE = re.compile(r"^module (\S+)\s?\((.*?)\);\n(.*?)^endmodule\n+", re.DOTALL | re.MULTILINE)
INSTANCE = re.compile(r"^  (\\\S+)  \S+ +\(\n(?:    \..*\n)*", re.MULTILINE)
WIRED = re.compile(r"(?<=^    \.)(\\port\$\d+\$\d+)(?= )", re.MULTILINE)
NUMBERED = re.compile(r"\\port\$\d+\$\d+")  # a port that Amaranth numbers over the whole design
COUNTED = re.compile(r"dump_module\$\d+")  # a register that Yosys makes in every module, and numbers


def to_verilog(component: Component, name: str) -> str:
    """The component and all below it as one Verilog file whose top module is `name`; the same text every time.

    Equal modules are written once, for Amaranth gives every instance a module of its own.
    """
    with _uncollected(), patch.dict(os.environ, PYTHONSAFEPATH="1"):  # Yosys runs in a Python of its own
        text = verilog.convert(component, name=name, emit_src=False, strip_internal_attrs=True)
    return _share(_renumber(text))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's search for cycles, which is a quarter of a conversion and finds nothing before its end."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _renumber(text: str) -> str:
    """Numbered ports numbered module by module, so that equal modules have equal ports."""
    ports = {found[1]: _numbers(found[2]) for found in MODULE.finditer(text)}

    def instance(found: re.Match[str]) -> str:
        return WIRED.sub(lambda wired: ports[found[1]][wired[1]].replace("$", "$$"), found[0])

    def module(found: re.Match[str]) -> str:
        body = INSTANCE.sub(instance, found[0])  # what is done has two $, and no number is met again
        own = _numbers(body)
        return NUMBERED.sub(lambda port: own[port[0]], body).replace("$$", "$")

    return MODULE.sub(module, text)


def _numbers(text: str) -> dict[str, str]:
    fresh = count()
    return {port: f"\\port${next(fresh)}" for port in dict.fromkeys(NUMBERED.findall(text))}


def _share(text: str) -> str:
    """Verilog with each set of equal modules made one, from the leaves up."""
    while True:
        first: dict[str, str] = {}
        same: dict[str, str] = {}
        for found in MODULE.finditer(text):
            name = found[1]
            body = COUNTED.sub("dump_module", found[0].replace(name, "", 1))
            if first.setdefault(body, name) != name:
                same[name] = first[body]
        if not same:
            return text
        text = _merge(text, same)


def _merge(text: str, same: dict[str, str]) -> str:
    """Modules named in `same` left out, their instances made those of the module that they equal."""
    text = MODULE.sub(lambda found: "" if found[1] in same else found[0], text)
    return INSTANCE.sub(lambda use: use[0].replace(use[1], same.get(use[1], use[1]), 1), text)
