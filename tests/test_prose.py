"""Docstrings, comments, messages and documentation are plain English: a budget of turns that puzzle readers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Turns that stand for a noun, which the sentence should repeat, or for the technical term.
PUZZLING = re.compile(
    r"\bthose (?:of|that|who|which|with|in|it|where)\b"
    r"|\b(?:that|the one|the ones) of\b"
    r"|(?<![?\w])\b[Ww]hat (?:is|are|was|were|it|they|a|an|the|has|have|can|may|does|do|no|others?|each)\b"
    r"|\bnone of (?:its|them|these|those)\b|\b(?:is|are|there is) none\b"
    r"|\basked for\b|\b(?:is|are|was|be) asked\b"
    r"|\bgo(?:es|ing)? on\b|\bgiven? up\b|\blet (?:in|go)\b"
    r"|\b(?:nobody|somebody|whoever|whatever)\b|\bsuch ones?\b|\bof (?:its|their|one's) own\b"
)


#: Comments on lines of their own, and behind code, where ``ruff format`` puts two spaces before them.
COMMENT = re.compile(r"^\s*(#.*)|\S  (# .*)", re.MULTILINE)


@cache
def strings() -> tuple[list[str], list[str]]:
    """Return the docstrings, and the strings with several words: messages, help and descriptions."""
    documentation: list[str] = []
    messages: list[str] = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        docstrings = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):  # a statement before its expression
            if isinstance(node, ast.Expr):
                docstrings.add(node.value)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if node in docstrings:
                    documentation.append(node.value)
                elif " " in node.value:
                    messages.append(node.value)
    return documentation, messages


def source_texts() -> Iterator[str]:
    yield from strings()[0]
    for path in sorted((ROOT / "src").rglob("*.py")):
        yield from (own or behind for own, behind in COMMENT.findall(path.read_text(encoding="utf-8")))


def message_texts() -> Iterator[str]:
    yield from strings()[1]


def documentation_texts() -> Iterator[str]:
    for path in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"):
        outside = re.sub(r"^\s*```.*?^\s*```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        yield re.sub(r"`[^`\n]*`", "x", outside)


@pytest.mark.slow
@pytest.mark.parametrize(("texts", "limit"), [(source_texts, 3), (message_texts, 5), (documentation_texts, 2)])
def test_puzzling_turns_are_rare(texts, limit: int) -> None:
    words, found = 0, []
    for text in texts():
        words += len(text.split())
        found += [" ".join(text[max(0, at.start() - 40) : at.end() + 40].split()) for at in PUZZLING.finditer(text)]
    assert len(found) * 10_000 / words < limit, "per 10,000 words; the places:\n" + "\n".join(found)
