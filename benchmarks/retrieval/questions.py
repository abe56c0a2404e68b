"""Questions of the benchmark, each with the lines of the corpus that answer it.

A needed line is known by a quotation, so that another version of a package, in which it is on another line, still
serves. Half of the questions, chosen by a hash of their text, may be used to tune; the other half is only measured.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

__all__ = ["LANGUAGES", "Line", "Question", "Split", "load"]

LANGUAGES = ("en", "code", "de", "zh", "ja", "ko")
FOLDER = Path(__file__).parent / "questions"

Split: TypeAlias = Literal["tune", "test"]
Line: TypeAlias = tuple[str, int]
"""File, by its path in the corpus, and the number of a line in it from 1."""


class Needed(msgspec.Struct, forbid_unknown_fields=True):
    """Line that answers a question, by the file and a piece of the line that is in no other line of it."""

    file: str
    quote: str


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """Question. ``kind`` is words, paraphrase, identifier, two (needs two files) or none (has no answer)."""

    kind: Literal["words", "paraphrase", "identifier", "two", "none"]
    question: str
    needed: list[Needed]

    @property
    def split(self) -> Split:
        """The half that the question is in."""
        return "tune" if hashlib.sha256(self.question.encode()).digest()[0] % 2 else "test"

    def lines(self, corpus: Path) -> list[Line]:
        """Return the needed lines that are in the corpus."""
        found = []
        for needed in self.needed:
            path = corpus / needed.file
            lines = path.read_text().split("\n") if path.is_file() else []
            numbers = [number for number, line in enumerate(lines, 1) if needed.quote in line]
            found += [(needed.file, number) for number in numbers[:1]]
        return found


def load(language: str, split: Split | None = None) -> list[Question]:
    """Return the questions of a language, or one half of them."""
    lines = (FOLDER / f"{language}.jsonl").read_bytes().splitlines()
    questions = [msgspec.json.decode(line, type=Question) for line in lines if line.strip()]
    return [each for each in questions if split is None or each.split == split]
