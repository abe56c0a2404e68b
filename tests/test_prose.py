"""Docstrings, comments, messages and documentation are plain English: a budget of turns that puzzle readers."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
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


def source_texts() -> Iterator[str]:
    for path in sorted((ROOT / "src").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield node.value.value
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.string


def message_texts() -> Iterator[str]:
    """Yield the strings of the code with several words: messages, help and descriptions."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield node.value if " " in node.value else ""


def documentation_texts() -> Iterator[str]:
    for path in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"):
        outside = re.sub(r"^\s*```.*?^\s*```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        yield re.sub(r"`[^`\n]*`", "x", outside)


@pytest.mark.slow
@pytest.mark.parametrize(("texts", "limit"), [(source_texts, 5), (message_texts, 5), (documentation_texts, 5)])
def test_puzzling_turns_are_rare(texts, limit: int) -> None:
    words, found = 0, []
    for text in texts():
        words += len(text.split())
        found += [" ".join(text[max(0, at.start() - 40) : at.end() + 40].split()) for at in PUZZLING.finditer(text)]
    assert len(found) * 10_000 / words < limit, "per 10,000 words; the places:\n" + "\n".join(found)
