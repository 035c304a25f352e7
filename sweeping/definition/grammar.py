"""The grammar of constraints and objectives: a text becomes steps for a stack, and nothing else can become of it."""

import math
import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NoReturn

from pimloom.arch.document import short
from pimloom.arch.error import UserError, one_line
from pimloom.arch.load import nearest
from pimloom.sweeping.definition.arithmetic import FUNCTIONS, Program

if TYPE_CHECKING:
    from lark import Lark

LONGEST = 1000  # characters
DEEPEST = 50  # parentheses inside one another

_GRAMMAR = r"""
expression: sum
constraint: side (SIGN side)*
?side: sum | TEXT -> text
?sum: product | sum "+" product -> add | sum "-" product -> subtract
?product: signed | product "*" signed -> multiply | product "/" signed -> divide
?signed: power | "-" signed -> negate
?power: atom | atom ("^" | "**") signed -> power
?atom: NUMBER -> number | NAME -> column | ODD_NAME -> odd_column | "(" sum ")" | NAME "(" sum ("," sum)* ")" -> call
SIGN: "<=" | ">=" | "==" | "!=" | "<" | ">"
NUMBER: /([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?/
NAME: /(?!__)[A-Za-z_][A-Za-z0-9_]*(\.(?!__)[A-Za-z0-9_]+)*/
ODD_NAME: /`[^`\n]+`/
TEXT: /"[^"\n]*"|'[^'\n]*'/
%ignore /[ \t\r\n]+/
"""
_QUOTED = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|'[^'\n]*'")
_VALUE = "a number, a column or '('"


class _Refused(Exception):
    """What is wrong, and the character it starts at, from 0."""

    def __init__(self, said: str, position: int) -> None:
        super().__init__(said)
        self.said, self.position = said, position


def steps_of_expression(text: str, where: str) -> Program:
    """The steps of an arithmetic expression. Raises UserError with the column of what does not fit."""
    return _parsed(text, where, "expression")


def sides_of_constraint(text: str, where: str) -> list[Program | str]:
    """The sides of a comparison and the signs between them: side, sign, side, ... Raises UserError.

    A side that is a text has the one step `text`.
    """
    return _parsed(text, where, "constraint")


def _parsed(text: str, where: str, start: str) -> Any:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    if len(text) > LONGEST:
        raise UserError(f"{where}: expected at most {LONGEST} characters of {start}, got {len(text)}")
    try:
        _check_depth(text)
        return _parser().parse(text, start=start)
    except _Refused as refused:
        _fail(text, where, refused.position, refused.said)
    except UnexpectedToken as error:
        end = error.token.type == "$END"
        got = "the end" if end else repr(str(error.token))
        position = len(text) if end else error.token.start_pos or 0
        _fail(text, where, position, f"expected {_expected(error.accepts)}, got {got}")
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        _fail(text, where, position, _odd(text[position]))


def _fail(text: str, where: str, position: int, said: str) -> NoReturn:
    raise UserError(f"{where}: {one_line(short(text))!r}: column {position + 1}: {one_line(said)}") from None


def _check_depth(text: str) -> None:
    plain = _QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
    depths = accumulate((c == "(") - (c == ")") for c in plain)
    deep = next((i for i, depth in enumerate(depths) if depth > DEEPEST), None)
    if deep is not None:
        raise _Refused(f"expected at most {DEEPEST} parentheses inside one another", deep)


def _expected(terminals: set[str]) -> str:
    if "NAME" in terminals:
        return _VALUE
    kinds = {"PLUS": "an operator", "SIGN": "a comparison", "COMMA": "','", "RPAR": "')'", "$END": "the end"}
    said = [words for terminal, words in kinds.items() if terminal in terminals]
    return " or ".join(said)


def _odd(character: str) -> str:
    if character in "=!":
        return f"got {character!r}, expected a comparison such as == or !="
    if character in "`\"'":
        return f"a {character} that does not end"
    return (
        f"got {character!r}, expected numbers, columns, + - * / ^, comparisons and parentheses"
        " (a name with other characters stands in backticks)"
    )


@cache
def _parser() -> "Lark":
    from lark import Lark, Token, Transformer

    class Steps(Transformer):
        """Children are the programs below; each method returns the program of its rule."""

        def number(self, children: list[Token]) -> Program:
            if not math.isfinite(value := float(children[0])):
                raise _Refused("expected a finite number", children[0].start_pos or 0)
            return (("number", value),)

        def column(self, children: list[Token]) -> Program:
            return (("column", str(children[0])),)

        def odd_column(self, children: list[Token]) -> Program:
            return (("column", str(children[0])[1:-1]),)

        def text(self, children: list[Token]) -> Program:
            return (("text", str(children[0])[1:-1]),)

        def call(self, children: list[Any]) -> Program:
            name, *arguments = children
            if name not in FUNCTIONS:
                known = f"{', '.join(FUNCTIONS)}{nearest(name, FUNCTIONS)}"
                raise _Refused(f"unknown function {str(name)!r}, expected one of {known}", name.start_pos or 0)
            count = FUNCTIONS[name]
            if count is not None and len(arguments) != count:
                raise _Refused(f"{name} takes {count} value, got {len(arguments)}", name.start_pos or 0)
            return (*sum(arguments, ()), (str(name), len(arguments)))

        def expression(self, children: list[Program]) -> Program:
            return children[0]

        def constraint(self, children: list[Any]) -> list[Any]:
            return [str(child) if isinstance(child, Token) else child for child in children]

        add = _operation("+", 2)
        subtract = _operation("-", 2)
        multiply = _operation("*", 2)
        divide = _operation("/", 2)
        power = _operation("^", 2)
        negate = _operation("negate", 1)

    return Lark(_GRAMMAR, parser="lalr", lexer="basic", start=["expression", "constraint"], transformer=Steps())


def _operation(name: str, count: int) -> Callable[[Any, list[Program]], Program]:
    def method(_: Any, children: list[Program]) -> Program:
        return (*sum(children, ()), (name, count))

    return method
