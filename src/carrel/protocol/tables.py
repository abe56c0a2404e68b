"""Data frames and arrays of pandas, polars and numpy as JSON values and as tables in text, without importing these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

__all__ = ["array_values", "is_frame", "is_table_type", "records_of", "table_of"]

FRAMES = frozenset(
    {(package, name) for package in ("pandas", "polars") for name in ("DataFrame", "LazyFrame", "Series")}
)


def is_table_type(kind: Any) -> bool:
    """Return whether a class is a data frame or a series of pandas or polars."""
    if not isinstance(kind, type):
        return False
    return any((base.__module__.partition(".")[0], base.__name__) in FRAMES for base in kind.__mro__)


def is_frame(value: Any) -> bool:
    """Return whether a value is a data frame or a series of pandas or polars."""
    return is_table_type(type(value))


def array_values(value: Any) -> Any:
    """Return an array or a number of numpy as lists and numbers.

    Raises:
        TypeError: it is something else.
    """
    kind = type(value)
    if kind.__module__.partition(".")[0] != "numpy" or not hasattr(value, "tolist"):
        raise TypeError(f"The type {kind.__qualname__} cannot be encoded as JSON")
    return value.tolist()


def records_of(frame: Any) -> list[Any]:
    """Return the rows of a frame, each a dictionary by column, or the values of a series. Missing values are None.

    An index of pandas that has a name, or is not a mere count of the rows, is a column.
    """
    if hasattr(frame, "collect"):  # polars.LazyFrame
        frame = frame.collect()
    if hasattr(frame, "to_dicts"):
        return list(frame.to_dicts())
    if not hasattr(frame, "to_json"):  # polars.Series
        return list(frame.to_list())
    if hasattr(frame, "columns") and (frame.index.name is not None or type(frame.index).__name__ != "RangeIndex"):
        frame = frame.reset_index()
    if not hasattr(frame, "columns"):
        return list(msgspec.json.decode(frame.to_json(orient="values", date_format="iso")))
    return list(msgspec.json.decode(frame.to_json(orient="records", date_format="iso", date_unit="s")))


def table_of(records: Sequence[Any]) -> str:
    """Return records as a table in Markdown; values that are no records, one on each line."""
    if not records or not all(isinstance(record, dict) for record in records):
        return "\n".join(map(_cell, records)) or "(no rows)"
    names = list(records[0])
    rows = [names, ["---"] * len(names), *([_cell(record[name]) for name in names] for record in records)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode().strip('"')
    return text.replace("|", "\\|").replace("\r", "").replace("\n", "<br>")
