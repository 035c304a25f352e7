"""Rows of plain values as columns of one type each, and the types of several tables made one.

A column holds one of null, bool, int64, float64, text, bytes. Where values or tables differ, int and float become
float, and any other mixture text: as YAML writes it (`true`, `8`, `0.5`; `8` for 8.0, too; bytes as hex). A column ends
up the same whichever rows shared a table on the way (integers beyond 2^53 that become floats are rounded).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pimloom.sweeping.store.arrays import array_of

if TYPE_CHECKING:
    import pandas

NULL, BOOL, INT, FLOAT, TEXT, BYTES = pa.null(), pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.binary()
TYPES = (NULL, BOOL, INT, FLOAT, TEXT, BYTES)
_OF_VALUE = {type(None): NULL, bool: BOOL, int: INT, float: FLOAT, str: TEXT, bytes: BYTES}
_LARGEST_EXACT = 2.0**53


def table_of(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """The rows as a table; a key that a row lacks is null there.

    Values: None, bool, int, float, str, bytes and numpy's scalars; an integer beyond 64 bits becomes text. TypeError
    for any other value.
    """
    names = united_order([tuple(row) for row in rows])
    return pa.Table.from_arrays([_array(name, [row.get(name) for row in rows]) for name in names], names)


def united(tables: Sequence[pa.Table], text: Iterable[str] = ()) -> pa.Table:
    """The tables one after the other, with all their columns; those named in `text` are there, and text, always."""
    always = dict.fromkeys(text, TEXT)
    names = list(dict.fromkeys([*united_order([tuple(table.column_names) for table in tables]), *always]))
    types: dict[str, pa.DataType] = {name: always.get(name, NULL) for name in names}
    for table in tables:
        for field in table.schema:
            types[field.name] = _join(types[field.name], field.type)
    schema = pa.schema(list(types.items()))
    if not tables:
        return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    return pa.concat_tables([_cast(table, schema) for table in tables])


def united_order(lists: Iterable[tuple[str, ...]]) -> list[str]:
    """All names, each behind the one that it follows in its own list: the same for any order of the lists."""
    order: list[str] = []
    for names in sorted(set(lists), key=lambda names: (-len(names), names)):
        known, at = set(order), 0
        for name in names:
            if name in known:
                at = max(at, order.index(name) + 1)
            else:
                order.insert(at, name)
                at += 1
    return order


def frame_of(table: pa.Table) -> "pandas.DataFrame":
    """The table as a DataFrame: float64 with NaN for null, str, and int64 and bool or, with nulls, Int64 and boolean.

    A column of nulls only is float64. The table is used up.
    """
    import pandas

    with_nulls = {INT: pandas.Int64Dtype(), BOOL: pandas.BooleanDtype(), TEXT: pandas.StringDtype(na_value=math.nan)}
    names = table.column_names
    plain = [n for n in names if table[n].type not in (INT, BOOL) or not table[n].null_count]
    frame = _cast(table.select(plain), _without_null_type(table.select(plain).schema)).to_pandas(
        types_mapper=lambda type_: with_nulls[TEXT] if type_ == TEXT else None, split_blocks=True
    )
    for name in (n for n in names if n not in plain):
        frame[name] = table[name].to_pandas(types_mapper=with_nulls.get)
    return frame[names]


def _without_null_type(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, FLOAT if field.type == NULL else field.type) for field in schema])


def _array(name: str, values: list[object]) -> pa.Array:
    """The values as an array of the narrowest type that holds them all."""
    kinds = set(map(type, values))
    if not kinds <= _OF_VALUE.keys():
        values = [_plain(name, value) for value in values]
        kinds = set(map(type, values))
    type_ = reduce(_join, (_OF_VALUE[kind] for kind in kinds))
    if int in kinds and any(type(value) is int and not -(2**63) <= value < 2**63 for value in values):
        type_ = TEXT
    if type_ == FLOAT and int in kinds:
        values = [float(value) if type(value) is int else value for value in values]
    return array_of([_text(value) for value in values] if type_ == TEXT else values, type_)


def _plain(name: str, value: Any) -> object:
    """numpy's scalars and kinds of str and int as Python's own."""
    value = value.item() if hasattr(value, "item") else value
    kinds: tuple[Any, ...] = (bool, int, float, str, bytes)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return None
    raise TypeError(f"column {name}: a {type(value).__name__} has no place in a row")


def _text(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and abs(value) < _LARGEST_EXACT:
            return str(int(value))
        case bytes():
            return value.hex()
    return str(value).encode(errors="backslashreplace").decode()  # a file's name may hold what UTF-8 cannot


def _join(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The narrowest type that holds the values of both."""
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    return FLOAT if {one, other} == {INT, FLOAT} else TEXT


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns and types of `schema`, null where it lacks one."""
    if table.schema == schema:
        return table
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(table), field.type))
        elif field.type == TEXT and table[field.name].type not in (TEXT, NULL):
            columns.append(array_of([_text(value) for value in table[field.name].to_pylist()], TEXT))
        else:
            columns.append(pc.cast(table[field.name], field.type, safe=False))
    return pa.Table.from_arrays(columns, schema=schema)
