"""Edits of ``[section.name]`` tables in a TOML file that keep the rest of the text byte for byte.

Each edit is verified: the new text must parse to the old data plus the change. Raises an error if the table is written
    in an unsupported form (inline, or with dotted keys).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["TOMLError", "parse", "put", "remove"]

BARE = re.compile(r"[A-Za-z0-9_-]+")
PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
HEADER = re.compile(rf"^[ \t]*\[{{1,2}}[ \t]*({PART}(?:[ \t]*\.[ \t]*{PART})*)[ \t]*\]{{1,2}}[ \t]*(?:#.*)?$")


class TOMLError(ValueError):
    """The text is not valid TOML, or cannot be changed safely."""


def parse(text: str) -> dict[str, Any]:
    """Return the data of a TOML text.

    Raises:
        TOMLError: the text is not valid.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TOMLError(str(error)) from error


def put(text: str, tables: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Add or replace a table for each section and name. Comments in a replaced table are kept.

    Raises:
        TOMLError: the text is not valid, or cannot be changed safely.
    """
    data = parse(text)
    end = "\r\n" if "\r\n" in text else "\n"
    added: list[str] = []
    for (section, name), table in tables.items():
        present = data.setdefault(section, {})
        if not isinstance(present, dict):
            raise TOMLError(f"{section} is not a table")
        if name in present:
            before, comments, after = _split(text, section, name)
            text = f"{_ready(before, end)}{_block(section, name, table, comments, end)}{end if after else ''}{after}"
        else:
            added.append(_block(section, name, table, [], end))
        present[name] = dict(table)
    return _checked(_ready(text, end) + end.join(added) if added else text, data)


def _ready(text: str, end: str) -> str:
    """Append an empty line to the text, unless the text is empty."""
    if not text or text.endswith(end * 2):
        return text
    return text + end if text.endswith("\n") else text + end * 2


def _block(section: str, name: str, table: Mapping[str, Any], comments: Iterable[str], end: str) -> str:
    lines = [f"[{section}.{_key(name)}]", *comments, *(f"{_key(key)} = {_value(table[key])}" for key in table)]
    return end.join(lines) + end


def remove(text: str, section: str, name: str) -> str:
    """Return the text without ``[section.name]`` and its subtables.

    Raises:
        TOMLError: the text is not valid, or cannot be changed safely.
    """
    data = parse(text)
    before, _, after = _split(text, section, name)
    del data[section][name]
    if not data[section]:
        del data[section]
    end = "\r\n" if "\r\n" in text else "\n"
    if before.endswith(end * 2):  # the empty line added by ``put``
        before = before.removesuffix(end)
    return _checked(before + (end if after and before else "") + after, data)


def _split(text: str, section: str, name: str) -> tuple[str, list[str], str]:
    """Return the text before a table and its subtables, the comments in it, and the text after it."""
    kept: list[list[str]] = [[], []]
    comments: list[str] = []
    inside = found = False
    for line in text.splitlines(keepends=True):
        header = HEADER.match(line.rstrip("\r\n"))
        if header is not None:
            parts = [_part(part) for part in re.findall(PART, header[1])]
            inside = parts[:2] == [section, name]
            found = found or inside
        if not inside:
            kept[found].append(line)
        elif header is None and line.lstrip().startswith("#"):
            comments.append(line.rstrip("\r\n"))
    return "".join(kept[0]), comments, "".join(kept[1])


def _part(part: str) -> str:
    if part.startswith('"'):
        return str(parse(f"x = {part}")["x"])
    return part[1:-1] if part.startswith("'") else part


def _checked(text: str, expected: dict[str, Any]) -> str:
    data = parse(text)
    for side in (data, expected):
        for key in [key for key, value in side.items() if value == {}]:
            del side[key]
    if data != expected:
        raise TOMLError("the server is written there in a form that Carrel does not change")
    return text


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    """Return a value as TOML.

    Raises:
        TOMLError: a server entry cannot contain such a value.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }" if value else "{}"
    raise TOMLError(f"a {type(value).__name__} cannot be kept")
