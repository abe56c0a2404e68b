"""JSON with comments (JSONC): parser and in-place editor that keeps the rest of the text byte for byte.

Decoding and re-encoding a user's configuration file would lose comments, trailing commas, indentation and order, so
``put`` and ``remove`` find the offset of a change and edit only that.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["JsoncError", "parse", "put", "remove"]

MAX_DEPTH = 100
INDENTATION = "  "
LINE_WIDTH = 100

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
WORD = re.compile(r"true|false|null")
WORDS = {"true": True, "false": False, "null": None}
SPACE = re.compile(r"[ \t\r\n]*")


class JsoncError(ValueError):
    """The text is not valid JSON or JSONC, or cannot be edited. ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, text: str, at: int) -> None:
        self.line = text.count("\n", 0, at) + 1
        self.column = at - (text.rfind("\n", 0, at) + 1) + 1
        super().__init__(f"line {self.line}, column {self.column}: {message}")


class Value:
    """A parsed value and its location: ``text[start:end]``. ``members`` is None unless it is an object."""

    __slots__ = ("data", "end", "members", "start")

    def __init__(self, start: int, end: int, data: Any, members: list[Member] | None = None) -> None:
        self.start = start
        self.end = end
        self.data = data
        self.members = members

    def find(self, key: str) -> Member | None:
        """Return the member with a key; of duplicates, the last, as other parsers do."""
        return next((member for member in reversed(self.members or ()) if member.key == key), None)


class Member:
    """A member of an object: key and value. ``comma`` is the offset of the comma after it, if there is one."""

    __slots__ = ("comma", "key", "start", "value")

    def __init__(self, start: int, key: str, value: Value) -> None:
        self.start = start
        self.key = key
        self.value = value
        self.comma: int | None = None


class Parser:
    """Parser of one document. Without ``comments``, plain JSON: no comments, no trailing commas."""

    def __init__(self, text: str, comments: bool) -> None:
        self.text = text
        self.comments = comments

    def document(self) -> Value:
        value = self.value(self.trivia(0), 0)
        end = self.trivia(value.end)
        if end != len(self.text):
            raise self.error("unexpected text after the end of the document", end)
        return value

    def error(self, message: str, at: int) -> JsoncError:
        return JsoncError(message, self.text, at)

    def trivia(self, at: int) -> int:
        """Return the offset of the next token after white space and comments."""
        while True:
            at = skip_space(self.text, at)
            if not self.text.startswith(("//", "/*"), at):
                return at
            if not self.comments:
                raise self.error("a comment, and this file has to be plain JSON", at)
            end = comment_end(self.text, at)
            if end is None:
                raise self.error("a comment that does not end", at)
            at = end

    def value(self, at: int, depth: int) -> Value:
        text = self.text
        if depth > MAX_DEPTH:
            raise self.error(f"nested more than {MAX_DEPTH} deep", at)
        first = text[at : at + 1]
        if first == "{":
            return self.object(at, depth)
        if first == "[":
            return self.array(at, depth)
        if first == '"':
            end = self.string_end(at)
            return Value(at, end, self.string(at, end))
        if word := WORD.match(text, at):
            return Value(at, word.end(), WORDS[word.group()])
        if number := NUMBER.match(text, at):
            # Only its location matters; float() accepts any number of digits, int() at most 4,300.
            return Value(at, number.end(), float(number.group()))
        raise self.error("the text ends too early" if not first else "a value was expected here", at)

    def string_end(self, at: int) -> int:
        match = STRING.match(self.text, at)
        if match is None:
            raise self.error("a string that does not end on its line", at)
        return match.end()

    def string(self, start: int, end: int) -> str:
        try:
            return str(json.loads(self.text[start:end]))
        except ValueError:
            raise self.error("a string with an escape that JSON does not have", start) from None

    def object(self, start: int, depth: int) -> Value:
        members: list[Member] = []
        at = self.trivia(start + 1)
        while not self.text.startswith("}", at):
            if members and members[-1].comma is None:
                raise self.error("a comma or } was expected here", at)
            if not self.text.startswith('"', at):
                raise self.error("a key in double quotes was expected here", at)
            end = self.string_end(at)
            colon = self.trivia(end)
            if not self.text.startswith(":", colon):
                raise self.error("a colon was expected here", colon)
            member = Member(at, self.string(at, end), self.value(self.trivia(colon + 1), depth + 1))
            members.append(member)
            at = self.trivia(member.value.end)
            if self.text.startswith(",", at):
                member.comma = at
                at = self.trivia(at + 1)
                self.refuse_trailing_comma("}", at, member.comma)
        return Value(start, at + 1, {member.key: member.value.data for member in members}, members)

    def array(self, start: int, depth: int) -> Value:
        items: list[Any] = []
        separated = True
        at = self.trivia(start + 1)
        while not self.text.startswith("]", at):
            if not separated:
                raise self.error("a comma or ] was expected here", at)
            item = self.value(at, depth + 1)
            items.append(item.data)
            at = self.trivia(item.end)
            separated = self.text.startswith(",", at)
            if separated:
                comma = at
                at = self.trivia(at + 1)
                self.refuse_trailing_comma("]", at, comma)
        return Value(start, at + 1, items)

    def refuse_trailing_comma(self, bracket: str, at: int, comma: int) -> None:
        if not self.comments and self.text.startswith(bracket, at):
            raise self.error("a comma before the closing bracket, and this file has to be plain JSON", comma)


def parse(text: str, *, comments: bool = True) -> Any:
    """Parse ``text`` into plain Python values.

    Raises:
        JsoncError: the text is not JSON (with comments and trailing commas, if ``comments``).
    """
    return Parser(text, comments).document().data


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return ``text`` with ``value`` at ``path``, a path of keys; missing objects are created.

    Raises:
        JsoncError: the text is not JSON with comments, or a value on the path is not an object.
    """
    root = target = Parser(text, comments=True).document()
    for depth, key in enumerate(path):
        if target.members is None:
            where = ".".join(path[:depth]) or "the document"
            raise JsoncError(f"{where} is not an object", text, target.start)
        member = target.find(key)
        if member is None:
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            return insert(text, root, target, key, value)
        target = member.value
    if json.dumps(target.data, sort_keys=True) == json.dumps(value, sort_keys=True):
        return text
    style = Style(text, root)
    if style.inline(root):
        return text[: target.start] + style.compact(value) + text[target.end :]
    return text[: target.start] + style.render(value, indentation_at(text, target.start)) + text[target.end :]


def remove(text: str, path: tuple[str, ...]) -> str:
    """Return ``text`` without the member at ``path``; ``text`` itself if there is none.

    Raises:
        JsoncError: the text is not JSON with comments.
    """
    while True:
        owner: Value | None = Parser(text, comments=True).document()
        for key in path[:-1]:
            member = owner.find(key) if owner else None
            owner = member.value if member else None
        member = owner.find(path[-1]) if owner else None
        if owner is None or member is None:
            return text
        text = cut(text, owner, member)


class Style:
    """Layout of a document (line ends, indentation, spaces), applied to added text."""

    def __init__(self, text: str, root: Value) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.unit = INDENTATION
        if root.members and starts_line(text, root.members[0].start):
            outer = indentation_at(text, root.start)
            self.unit = indentation_at(text, root.members[0].start).removeprefix(outer) or INDENTATION
        colon = re.compile(r'"\s*:(\s?)').search(text)
        self.space = " " if colon is None or colon[1] else ""

    def inline(self, value: Value) -> bool:
        return bool(value.members) and "\n" not in self.text[value.start : value.end]

    def compact(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=("," + self.space, ":" + self.space))

    def render(self, value: Any, indentation: str) -> str:
        """Format ``value`` over several lines, except lists of simple values that fit on one."""
        if isinstance(value, dict) and value:
            inner = indentation + self.unit
            rows = [f"{inner}{self.compact(key)}: {self.render(item, inner)}" for key, item in value.items()]
            return self.rows("{", rows, "}", indentation)
        if isinstance(value, list) and value:
            line = json.dumps(value, ensure_ascii=False)
            nested = any(isinstance(item, dict | list) for item in value)
            if nested or len(indentation) + len(line) > LINE_WIDTH:
                inner = indentation + self.unit
                rows = [inner + self.render(item, inner) for item in value]
                return self.rows("[", rows, "]", indentation)
        return json.dumps(value, ensure_ascii=False)

    def rows(self, opening: str, rows: list[str], closing: str, indentation: str) -> str:
        return self.newline.join([opening, ("," + self.newline).join(rows), indentation + closing])


def insert(text: str, root: Value, owner: Value, key: str, value: Any) -> str:
    """Return ``text`` with a new last member in ``owner``, formatted like its siblings."""
    style = Style(text, root)
    if owner.members:
        last = owner.members[-1]
        after = last.value.end if last.comma is None else last.comma + 1
        trailing = "" if last.comma is None else ","
        comma = "," if last.comma is None else ""
        if not starts_line(text, owner.members[0].start):
            added = f"{comma}{style.space}{style.compact({key: value})[1:-1]}{trailing}"
            return text[:after] + added + text[after:]
        indentation = indentation_at(text, owner.members[0].start)
        line_end = same_line_end(text, after)
        added = f"{style.newline}{indentation}{style.compact(key)}: {style.render(value, indentation)}{trailing}"
        return text[: last.value.end] + comma + text[last.value.end : line_end] + added + text[line_end:]

    if style.inline(root):
        return text[: owner.end - 1] + style.compact({key: value})[1:-1] + text[owner.end - 1 :]
    outer = indentation_at(text, owner.start)
    inner = outer + style.unit
    end = owner.end - 1
    while text[end - 1] in " \t\r\n":
        end -= 1
    closing = text[end : owner.end - 1]
    if "\n" not in closing:
        closing = style.newline + outer
    added = f"{style.newline}{inner}{style.compact(key)}: {style.render(value, inner)}"
    return text[:end] + added + closing + text[owner.end - 1 :]


def cut(text: str, owner: Value, member: Member) -> str:
    """Return ``text`` without ``member``, its comma, and its line if that is otherwise empty."""
    members = owner.members or []
    position = members.index(member)
    start, end = member.start, member.value.end if member.comma is None else member.comma + 1
    left, right = start, end
    while text[left - 1 : left] in (" ", "\t"):
        left -= 1
    while text[right : right + 1] in (" ", "\t"):
        right += 1
    if text[left - 1 : left] == "\n" and text[right : right + 2].startswith(("\n", "\r\n")):
        start, end = left, text.index("\n", right) + 1
    elif member.comma is not None:
        end = right
    else:
        start = left
    inside = text[:start] + text[end:]
    before = members[position - 1].comma if position else None
    if member.comma is None and before is not None:
        inside = inside[:before] + inside[before + 1 :]
    closing = owner.end - 1 - (len(text) - len(inside))
    if not inside[owner.start + 1 : closing].strip():
        inside = inside[: owner.start + 1] + inside[closing:]
    return inside


def skip_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def comment_end(text: str, at: int) -> int | None:
    """Return the end of the comment that starts at ``at``; None if it is unterminated."""
    if text.startswith("//", at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    end = text.find("*/", at + 2)
    return None if end < 0 else end + 2


def same_line_end(text: str, at: int) -> int:
    """Return the end of the comments that follow ``at`` on its line; ``at`` if there are none."""
    end = at
    while True:
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        stop = comment_end(text, at) if text.startswith(("//", "/*"), at) else None
        if stop is None:
            return end
        if text.startswith("//", at):
            return stop - 1 if text[stop - 1] == "\r" else stop
        end = at = stop


def starts_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t")


def indentation_at(text: str, at: int) -> str:
    """Return the indentation of the line of ``at``."""
    start = text.rfind("\n", 0, at) + 1
    line = text[start:at]
    return line[: len(line) - len(line.lstrip(" \t"))]
