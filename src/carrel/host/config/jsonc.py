"""JSON with comments (JSONC): parser and in-place editor that preserves the rest of the text byte for byte.

Decoding and re-encoding a user's configuration file would lose comments, trailing commas, indentation and order, so
``put`` and ``remove`` find the offset of a change and edit only this part. Offsets come from the ``json`` module, which
parses the text with comments and trailing commas replaced by spaces.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

__all__ = ["JsoncError", "parse", "put", "remove", "replace_start"]

INDENTATION = "  "
LINE_WIDTH = 100

STRING = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
COMMENT = re.compile(rf"{STRING}|(?P<comment>//[^\r\n]*|/\*(?:[^*]|\*(?!/))*\*/|/\*)|(?P<constant>NaN|-?Infinity)")
#: A trailing comma: a comma before a closing bracket, and after a value.
TRAILING = re.compile(rf"{STRING}|[\[{{,:]\s*,|(?P<comma>,)(?=\s*[}}\]])")
#: Comments on the rest of a line.
LINE_COMMENTS = re.compile(r"(?:[ \t]*/\*(?:[^*]|\*(?!/))*\*/)*(?:[ \t]*//[^\r\n]*)?")
SPACE = re.compile(r"\s*")
VISIBLE = re.compile(r"[^\r\n]")


class JsoncError(ValueError):
    """The text is not valid JSON or JSONC, or cannot be edited. ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, text: str, at: int) -> None:
        self.line = text.count("\n", 0, at) + 1
        self.column = at - (text.rfind("\n", 0, at) + 1) + 1
        super().__init__(f"line {self.line}, column {self.column}: {message}")


class JsoncMember(NamedTuple):
    """A member of an object. ``start``, ``value`` (its start), ``end`` and ``comma`` (after it, if any) are offsets."""

    key: str
    start: int
    value: int
    end: int
    data: Any
    comma: int | None


class JsoncDocument:
    """Parsed document. ``commas`` is its text without comments, ``plain`` also without trailing commas."""

    def __init__(self, text: str, *, comments: bool = True) -> None:
        def blank_comment(found: re.Match[str]) -> str:
            if found["constant"]:
                raise JsoncError("a value was expected here", text, found.start())
            if found["comment"] is None:
                return found[0]
            if not comments:
                raise JsoncError("a comment, and this file has to be plain JSON", text, found.start())
            if found["comment"] == "/*":
                raise JsoncError("a comment that does not end", text, found.start())
            return VISIBLE.sub(" ", found[0])

        def blank_comma(found: re.Match[str]) -> str:
            if found["comma"] and not comments:
                problem = "a comma before the closing bracket, and this file has to be plain JSON"
                raise JsoncError(problem, text, found.start())
            return " " if found["comma"] else found[0]

        self.text = text
        self.commas = COMMENT.sub(blank_comment, text)
        self.plain = TRAILING.sub(blank_comma, self.commas)
        # int() accepts at most 4,300 digits, float() any number of them.
        self._decoder = json.JSONDecoder(parse_int=float)
        try:
            self.data = self._decoder.decode(self.plain)
        except json.JSONDecodeError as error:
            raise JsoncError(error.msg, text, error.pos) from None
        except RecursionError:
            raise JsoncError("nested too deeply", text, 0) from None
        self.start = skip(self.plain, 0)

    def members(self, start: int) -> list[JsoncMember] | None:
        """Return the members of the object at an offset, or None if the value is not an object."""
        if self.plain[start] != "{":
            return None
        found: list[JsoncMember] = []
        at = skip(self.plain, start + 1)
        while self.plain[at] != "}":
            key, end = self._decoder.raw_decode(self.plain, at)
            value = skip(self.plain, skip(self.plain, end) + 1)
            data, end = self._decoder.raw_decode(self.plain, value)
            after = skip(self.commas, end)
            found.append(JsoncMember(key, at, value, end, data, after if self.commas[after] == "," else None))
            at = skip(self.plain, after + 1 if self.plain[after] == "," else after)
        return found

    def find(self, start: int, key: str) -> JsoncMember | None:
        """Return the member with a key. Of duplicates, return the last, like other parsers."""
        return next((member for member in reversed(self.members(start) or ()) if member.key == key), None)

    def end(self, start: int) -> int:
        """Return the end of the value at an offset."""
        return self._decoder.raw_decode(self.plain, start)[1]

    def indentation(self, at: int) -> str:
        """Return the indentation of the line of an offset."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def starts_line(self, at: int) -> bool:
        """Return whether an offset is preceded only by spaces on its line."""
        return not self.text[self.text.rfind("\n", 0, at) + 1 : at].strip(" \t")


def parse(text: str, *, comments: bool = True) -> Any:
    """Parse ``text`` into plain Python values.

    Raises:
        JsoncError: the text is not JSON (with comments and trailing commas, if ``comments``).
    """
    return JsoncDocument(text, comments=comments).data


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return ``text`` with ``value`` at ``path``, a path of keys; missing objects are created.

    Raises:
        JsoncError: the text is not JSON with comments, or a value on the path is not an object.
    """
    document, member = JsoncDocument(text), None
    start = document.start
    for depth, key in enumerate(path):
        if document.members(start) is None:
            raise JsoncError(f"{'.'.join(path[:depth]) or 'the document'} is not an object", text, start)
        member = document.find(start, key)
        if member is None:
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            return insert(document, start, key, value)
        start = member.value
    if member is None or json.dumps(member.data, sort_keys=True) == json.dumps(value, sort_keys=True):
        return text
    style = Style(document)
    written = style.compact(value) if style.inline else style.render(value, document.indentation(start))
    return text[:start] + written + text[member.end :]


def replace_start(text: str, path: tuple[str, ...], number: int, values: list[str]) -> str:
    """Return ``text`` with the first items of the array at ``path`` replaced; the rest of the array keeps its form.

    Raises:
        JsoncError: the text is not JSON with comments, or has no such array at ``path``.
    """
    document = JsoncDocument(text)
    start = document.start
    for key in path:
        member = document.find(start, key)
        if member is None:
            raise JsoncError(f"{'.'.join(path)} is missing", text, start)
        start = member.value
    if document.plain[start] != "[":
        raise JsoncError(f"{'.'.join(path)} is not an array", text, start)
    end = start + 1
    for _ in range(number):
        end = skip(document.commas, document.end(skip(document.plain, end)))
        end += document.commas[end] == ","
    end += bool(number) and text[end] == " "
    empty = document.plain[skip(document.plain, end)] == "]"
    written = ", ".join(json.dumps(value, ensure_ascii=False) for value in values)
    return text[: start + 1] + written + (", " if written and not empty else "") + text[end:]


def remove(text: str, path: tuple[str, ...]) -> str:
    """Return ``text`` without the member at ``path``, or ``text`` unchanged if there is no such member.

    Raises:
        JsoncError: the text is not JSON with comments.
    """
    while True:
        document = JsoncDocument(text)
        start = document.start
        for key in path[:-1]:
            outer = document.find(start, key)
            if outer is None:
                return text
            start = outer.value
        member = document.find(start, path[-1])
        if member is None:
            return text
        text = remove_member(document, start, member)


class Style:
    """Layout of a document (line endings, indentation, spaces), to apply to added text."""

    def __init__(self, document: JsoncDocument) -> None:
        text, first = document.text, next(iter(document.members(document.start) or ()), None)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.unit = INDENTATION
        if first is not None and document.starts_line(first.start):
            outer = document.indentation(document.start)
            self.unit = document.indentation(first.start).removeprefix(outer) or INDENTATION
        colon = re.search(r'"\s*:(\s?)', text)
        self.space = " " if colon is None or colon[1] else ""
        self.inline = first is not None and "\n" not in text[document.start : document.end(document.start)]

    def compact(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=("," + self.space, ":" + self.space))

    def render(self, value: Any, indentation: str) -> str:
        """Format ``value`` over several lines, except lists of simple values that fit on one."""
        inner, line = indentation + self.unit, json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict) and value:
            rows = [f"{inner}{self.compact(key)}: {self.render(item, inner)}" for key, item in value.items()]
        elif isinstance(value, list) and (
            any(isinstance(item, dict | list) for item in value) or len(indentation) + len(line) > LINE_WIDTH
        ):
            rows = [inner + self.render(item, inner) for item in value]
        else:
            return line
        return self.newline.join([line[0], ("," + self.newline).join(rows), indentation + line[-1]])


def insert(document: JsoncDocument, owner: int, key: str, value: Any) -> str:
    """Return the text with a new last member in the object at ``owner``, formatted like its siblings."""
    text, style, members = document.text, Style(document), document.members(owner)
    if members:
        last = members[-1]
        comma, trailing = ("", ",") if last.comma is not None else (",", "")
        after = last.end if last.comma is None else last.comma + 1
        if not document.starts_line(members[0].start):
            added = f"{comma}{style.space}{style.compact({key: value})[1:-1]}{trailing}"
            return text[:after] + added + text[after:]
        indentation = document.indentation(members[0].start)
        comments = LINE_COMMENTS.match(text, after)
        line_end = after if comments is None else comments.end()
        added = f"{style.newline}{indentation}{style.compact(key)}: {style.render(value, indentation)}{trailing}"
        return text[: last.end] + comma + text[last.end : line_end] + added + text[line_end:]

    bracket = document.end(owner) - 1
    if style.inline:
        return text[:bracket] + style.compact({key: value})[1:-1] + text[bracket:]
    outer = document.indentation(owner)
    inner = outer + style.unit
    end = len(text[:bracket].rstrip(" \t\r\n"))
    closing = text[end:bracket] if "\n" in text[end:bracket] else style.newline + outer
    added = f"{style.newline}{inner}{style.compact(key)}: {style.render(value, inner)}"
    return text[:end] + added + closing + text[bracket:]


def remove_member(document: JsoncDocument, owner: int, member: JsoncMember) -> str:
    """Return the text without a member, its comma, and its line if that is otherwise empty."""
    text, members = document.text, document.members(owner) or []
    start, end = member.start, member.end if member.comma is None else member.comma + 1
    left = len(text[:start].rstrip(" \t"))
    right = len(text) - len(text[end:].lstrip(" \t"))
    if text[left - 1 : left] == "\n" and text[right : right + 2].startswith(("\n", "\r\n")):
        start, end = left, text.index("\n", right) + 1
    elif member.comma is not None:
        end = right
    else:
        start = left
    inside = text[:start] + text[end:]
    position = members.index(member)
    before = members[position - 1].comma if position else None
    if member.comma is None and before is not None:
        inside = inside[:before] + inside[before + 1 :]
    closing = document.end(owner) - 1 - (len(text) - len(inside))
    return inside if inside[owner + 1 : closing].strip() else inside[: owner + 1] + inside[closing:]


def skip(text: str, at: int) -> int:
    """Return the offset after white space."""
    found = SPACE.match(text, at)
    return at if found is None else found.end()
