"""What the source calls a value: the name that the line of Python binds, on which the value was made."""

import ast
from functools import lru_cache
from pathlib import Path

OLD = (ast.Name, ast.Attribute, ast.Constant)  # values that no statement makes


def name_at(place: str) -> str:
    """A word for what stands at `file.py:line`; "" where the file is not there or says nothing."""
    file, _, line = place.rpartition(":")
    return _names(file).get(int(line.partition(".")[0] or 0), "") if file else ""


@lru_cache(maxsize=64)
def _names(file: str) -> dict[int, str]:
    """Line -> word: of the innermost statement that holds the line, else of the function."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return {}
    found: dict[int, str] = {}
    _walk(tree, "", "", found)
    return found


def _walk(node: ast.AST, function: str, kind: str, found: dict[int, str]) -> None:
    for child in ast.iter_child_nodes(node):
        inner, cls = function, kind
        if isinstance(child, ast.ClassDef):
            cls = child.name.lower()
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = child.name.strip("_")
            inner = cls if inner in ("elaborate", "init") and cls else inner
        if isinstance(child, ast.stmt):
            word = _bound(child) or inner
            last = child.body[0].lineno - 1 if isinstance(child, (ast.With, ast.For, ast.If)) else child.end_lineno
            for line in range(child.lineno, (last or child.lineno) + 1):
                if word:
                    found[line] = word
        _walk(child, inner, cls, found)


def _bound(statement: ast.stmt) -> str:
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            made = [t for t, v in zip(targets, values, strict=False) if not isinstance(v, OLD) and not _named(v)]
            return _word(made[0]) if len(made) == 1 else ""
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return _word(target)
        case ast.AugAssign(value=value) | ast.Expr(value=value):
            for inner in ast.walk(value):  # signal.eq(value)
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "eq":
                    return f"{word}_in" if (word := _word(inner.func.value)) else ""
    return ""


def _named(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and any(keyword.arg == "name" for keyword in value.keywords)


def _word(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name):
            return name.strip("_")
        case ast.Attribute(attr=name):
            return name.strip("_")
        case ast.Subscript(value=value):
            return _word(value)
    return ""
