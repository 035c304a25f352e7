"""A YAML text, composed: its tree, and for each place in it the line, the comment and the words as written.

YAML takes as long to load as a short command takes for all else: this module is imported where a text was not
composed before (`kept`).
"""

import re
import sys
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any, NoReturn, cast

import yaml

from pimloom.arch.error import UserError
from pimloom.arch.kept import Composed
from pimloom.arch.scalar import DEEPEST, scalar
from pimloom.arch.source import SET, Source, refuse, short

_SECOND_DOCUMENT = "expected one document, got a second"
_EVENTS: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# what libyaml takes as PyYAML does; it takes `|#` for a block with a comment
_ALIKE = re.compile(r"(?:(?!---|\.\.\.|[|>][-+0-9]*#)[\n ->@-~\xa1-\u2027\u202a-\ud7ff])*")
_KEY = re.compile(r"[^.\[\]`\n]+")
_FREE_KEY = re.compile(r"[^\n]+")


def compose(file: str, text: str, root: str = "", free: Container[str] = ()) -> Composed:
    """A text and what stands where in it; arguments as of `Document`. Raises UserError with a wrong text's line."""
    made = _Composer(file, text, root, free)
    notes = [(place, source.line, source.text, made.shown[place]) for place, source in made.sources.items()]
    return Composed(made.tree, notes)


def top_level(text: str) -> dict[str, str]:
    """The values of one line that stand at the top level of a text, as written; nothing else is looked at and nothing
    checked. Raises ValueError if the text is not YAML."""
    found, depth, key = dict[str, str](), 0, ""
    for event in _events(text):
        if isinstance(event, yaml.CollectionStartEvent | yaml.CollectionEndEvent):
            depth, key = depth + (1 if isinstance(event, yaml.CollectionStartEvent) else -1), ""
        elif isinstance(event, yaml.ScalarEvent) and depth == 1:
            if key:
                found[key] = event.value
            key = "" if key else event.value
        elif isinstance(event, yaml.AliasEvent):
            key = ""
    return found


def _events(text: str) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=_EVENTS)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None


class _Noting(yaml.composer.Composer):
    """Composes nodes only, without aliases and tags, and notes where on each line the last scalar ends."""

    def _begin(self, text: str) -> None:
        self.depth = 0
        self.lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", text)
        self.code_end: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = cast(Any, self).peek_event()
        if event.anchor is not None:
            self._refuse("anchors and aliases are not allowed, write the value out", event)
        if event.tag is not None:
            self._refuse(f"tags are not allowed, got {event.tag.replace('tag:yaml.org,2002:', '!!')}", event)
        if isinstance(event, yaml.ScalarEvent):
            self._note(event.start_mark, event.end_mark, event.style in ("|", ">"))
            event.style = event.style or None  # libyaml: an empty one
            return super().compose_node(parent, index)
        self.depth += 1
        if self.depth > DEEPEST:
            self._refuse(f"nested too deeply, expected at most {DEEPEST} levels", event)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _refuse(self, said: str, event: Any) -> NoReturn:
        raise yaml.composer.ComposerError(None, None, said, event.start_mark)

    def _note(self, start: Any, end: Any, block: bool) -> None:
        for line in range(start.line + block, end.line):
            self.code_end[line] = sys.maxsize
        self.code_end[end.line] = end.column

    def comment(self, line: int) -> str:
        """The comment on a line, counted from 0; a # inside a scalar is none."""
        match = re.search(r"(?:^|\s)#(.*)", self.lines[line][self.code_end.get(line, 0) :])
        return match[1].strip() if match else ""


class _Loader(_Noting, yaml.SafeLoader):
    """Takes a text as PyYAML alone does."""

    def __init__(self, text: str) -> None:
        yaml.SafeLoader.__init__(self, text)
        self._begin(text)


class _Quick(_Noting, _EVENTS):
    """Takes it as libyaml does: in a fifth of the time."""

    def __init__(self, text: str) -> None:
        _EVENTS.__init__(self, text)
        yaml.composer.Composer.__init__(self)
        self._begin(text)


def _node(text: str) -> tuple[_Noting, Any]:
    """A text's node, and what knows its lines. What is wrong is said by PyYAML."""
    if _ALIKE.fullmatch(text):
        with suppress(yaml.YAMLError, RecursionError):
            quick = _Quick(text)
            return quick, quick.get_single_node()
    loader = _Loader(text)
    return loader, loader.get_single_node()


class _Composer:
    """Makes a text's tree, and notes where on the way."""

    def __init__(self, file: str, text: str, root: str, free: Container[str]) -> None:
        self.file, self.text, self.root, self.free = file, text, root, free
        self.sources: dict[str, Source] = {}
        self.shown: dict[str, str] = {}
        try:
            self._loader, node = _node(text)
        except (yaml.YAMLError, RecursionError) as error:
            self._not_yaml(error)
        if node is None:
            raise UserError(f"{self._where(None)}: {'no value' if file == SET else 'the file is empty'}")
        self.tree = self._plain(node, root, node.start_mark.line)

    def _fail(self, place: str, said: str) -> NoReturn:
        refuse(self.sources, place, said)

    def _where(self, line: int | None) -> str:
        if self.file == SET:
            return f"{SET} {self.root}"
        return self.file if line is None else f"{self.file}:{line + 1}"

    def _not_yaml(self, error: Exception) -> NoReturn:
        line, said, within = None, "not YAML we can read: nested too deeply", ""
        if isinstance(error, yaml.MarkedYAMLError):
            line = error.problem_mark.line if error.problem_mark else None
            said = f"not YAML: {error.problem}"
            if isinstance(error, yaml.composer.ComposerError):
                said = _SECOND_DOCUMENT if "another document" in said else str(error.problem)
            elif error.context_mark and error.context_mark.line != line:
                within = f", {error.context} that begins in line {error.context_mark.line + 1}"
        elif isinstance(error, yaml.reader.ReaderError):
            line = self.text.count("\n", 0, error.position)
            said = f"not YAML: unprintable character {error.character:#x}"
        raise UserError(f"{self._where(line)}: {short(said)}{within}") from None

    def _plain(self, node: Any, place: str, line: int) -> Any:
        """The value of a node, which stands at `place` and whose key or dash is on `line`, counted from 0."""
        self._note(node, place, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(n, f"{place}[{i}]", n.start_mark.line) for i, n in enumerate(node.value)]
        try:
            return scalar(node.value) if node.style is None else node.value
        except ValueError as error:
            self._fail(place, str(error))

    def _mapping(self, node: yaml.MappingNode, place: str) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = key_node.value, key_node.start_mark.line
            if not isinstance(key, str) or not re.fullmatch(_FREE_KEY if place in self.free else _KEY, key):
                shown = repr(key) if isinstance(key, str) else "a list or mapping"
                kind = "on one line" if place in self.free else "without dots and brackets"
                self._fail_on(line, place, f"expected a key {kind}, got {shown}")
            below = f"{place}.{key}" if place else key
            if key in tree:
                first = "" if self.file == SET else f", first on line {self.sources[below].line}"
                self._fail_on(line, place, f"duplicate key {key!r}{first}")
            tree[key] = self._plain(value_node, below, line)
        return tree

    def _fail_on(self, line: int, place: str, said: str) -> NoReturn:
        self.sources[place] = self._source(line, line)
        self._fail(place, said)

    def _source(self, line: int, comment_line: int) -> Source:
        return Source(self.file, 0 if self.file == SET else line + 1, self._loader.comment(comment_line))

    def _note(self, node: Any, place: str, line: int) -> None:
        start, end = node.start_mark, node.end_mark
        comment_line = end.line
        shown = short(self.text[start.index : end.index]) or "nothing"
        if isinstance(node, yaml.CollectionNode) and not node.flow_style:
            comment_line, shown = line, "a mapping" if isinstance(node, yaml.MappingNode) else "a list"
        elif isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
            comment_line = start.line
        self.sources[place] = self._source(line, comment_line)
        self.shown[place] = shown
