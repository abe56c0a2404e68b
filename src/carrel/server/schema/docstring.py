"""Docstring parser: the descriptions of a function and its parameters."""

from __future__ import annotations

import inspect
import re

__all__ = ["read_docstring"]

ARGUMENTS = re.compile(r"(?:Args|Arguments|Parameters|Params|Other Parameters|Keyword Args|Keyword Arguments):?\s*$")
ENTRY = re.compile(r"(?:[-*]\s+)?`{0,2}\*{0,2}(\w+)`{0,2}\s*(?:\(.*?\))?\s*:(?:\s+|$)(.*)")
DASHED = re.compile(r"[-*]?\s*`{0,2}\*{0,2}(\w+)`{0,2}\s*(?:\(.*?\))?\s+(?:-{1,2}|\u2013|\u2014)\s+(.*)")
FIELD = re.compile(r"[:@](?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
TYPE_FIELD = re.compile(r"[:@](?:type\s+\w+|rtype)\s*:")


def read_docstring(docstring: str | None, joint: str = " ") -> tuple[str | None, dict[str, str]]:
    """Return the text of a docstring without its section on parameters, and the descriptions by parameter.

    ``joint`` joins the lines of a description. The function
    knows the styles of Google (``Args:``, ``Parameters:``), NumPy (underlined ``Parameters``), Sphinx
    (``:param name:``), epydoc (``@param name:``) and entries with dashes (``name - description``) in a section.
    """
    lines = inspect.cleandoc(docstring or "").splitlines()
    text: list[str] = []
    found: dict[str, list[str]] = {}
    index = 0
    if (
        len(lines) > 1 and ARGUMENTS.match(lines[0]) and lines[1][:1].strip("- ")
    ):  # cleandoc() saw no first line to go by
        lines[1:] = [f"    {line}" for line in lines[1:]]
    while index < len(lines):
        line = lines[index]
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if ARGUMENTS.match(line) and is_rule(following):
            index = read_numpy(lines, index + 2, found)
        elif ARGUMENTS.match(line) and line.rstrip().endswith(":"):
            index = read_google(lines, index + 1, found)
        elif line.startswith((":", "@")) and (FIELD.match(line) or TYPE_FIELD.match(line)):
            index = read_sphinx(lines, index, found)
        else:
            text.append(line)
            index += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip()
    return description or None, {name: joint.join(filter(None, parts)) for name, parts in found.items() if any(parts)}


def is_rule(line: str) -> bool:
    return len(line) >= 3 and not line.strip("-")


def is_item(line: str) -> bool:
    return line.startswith(("- ", "* "))


def read_google(lines: list[str], index: int, found: dict[str, list[str]]) -> int:
    indent = 0
    parts: list[str] = []
    flat = index < len(lines) and is_item(lines[index])  # a list that is not indented
    while index < len(lines):
        line = lines[index]
        if line.strip() and not line[0].isspace() and not (flat and is_item(line)):
            break
        depth = len(line) - len(line.lstrip())
        indent = indent or (0 if flat else depth)
        entry = (ENTRY.match(line.strip()) or DASHED.match(line.strip())) if depth == indent else None
        if entry:
            parts = found.setdefault(entry[1], [])
        parts.append(entry[2].strip() if entry else line.strip())
        index += 1
    return index


def read_numpy(lines: list[str], index: int, found: dict[str, list[str]]) -> int:
    parts: list[list[str]] = []
    while index < len(lines) and not (index + 1 < len(lines) and lines[index].strip() and is_rule(lines[index + 1])):
        line = lines[index]
        if line.strip() and not line[0].isspace():
            names = line.partition(":")[0].split(",")
            parts = [found.setdefault(name.strip().lstrip("*"), []) for name in names]
        else:
            for part in parts:
                part.append(line.strip())
        index += 1
    return index


def read_sphinx(lines: list[str], index: int, found: dict[str, list[str]]) -> int:
    entry = FIELD.match(lines[index])
    parts = found.setdefault(entry[1], []) if entry else []
    parts.append(entry[2].strip() if entry else "")
    index += 1
    while index < len(lines) and lines[index][:1].isspace():
        parts.append(lines[index].strip())
        index += 1
    return index
