"""Plain ways to find passages, for comparison: names, grep, and BM25 of SQLite over whole files and over pieces.

Chinese, Japanese and Korean text is given to SQLite as pairs of characters, as SQLite cannot separate its words.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from carrel.search.terms import parted, words_of
from carrel.vendors.token_estimate import estimate_tokens

__all__ = ["RIVALS", "Found", "Rival", "texts_of"]

#: Tokens of a piece.
PIECE = 1000
#: Results of a question.
MOST = 60


class Found(NamedTuple):
    """Lines of a file that a method returns, and their text."""

    file: str
    first: int
    last: int
    text: str


def texts_of(corpus: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a language, and their texts."""
    for path in sorted((corpus / language).rglob("*")):
        if path.is_file():
            yield path.relative_to(corpus).as_posix(), path.read_text()


def pieces(file: str, text: str) -> Iterator[Found]:
    """Yield a text as pieces of whole lines with about 1,000 tokens."""
    lines = text.split("\n")
    first, size = 1, 0
    for number, line in enumerate(lines, 1):
        size += estimate_tokens(line + "\n")
        if size >= PIECE or number == len(lines):
            yield Found(file, first, number, "\n".join(lines[first - 1 : number]))
            first, size = number + 1, 0


def whole(file: str, text: str) -> Iterator[Found]:
    """Yield a text as one piece."""
    yield Found(file, 1, text.count("\n") + 1, text)


class Rival:
    """BM25 of SQLite's FTS5 over parts of files, with the tokenizer ``porter``."""

    def __init__(self, split: Callable[[str, str], Iterable[Found]], by_name: bool = False) -> None:
        self._split = split
        self._by_name = by_name

    def build(self, texts: Iterable[tuple[str, str]]) -> None:
        """Index files."""
        self._found = [part for file, text in texts for part in self._split(file, text)]
        self._database = sqlite3.connect(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE parts USING fts5(text, content='', tokenize='porter unicode61')")
        rows = ((number, spaced(self._indexed(each))) for number, each in enumerate(self._found))
        self._database.executemany("INSERT INTO parts(rowid, text) VALUES (?, ?)", rows)

    def _indexed(self, found: Found) -> str:
        return found.file.partition("/")[2] if self._by_name else found.text

    def ask(self, question: str) -> list[Found]:
        """Return the parts that have any word of a question, best first."""
        terms = [term for word in words_of(question) for term in word.terms]
        query = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
        rows = self._database.execute(
            f"SELECT rowid FROM parts WHERE parts MATCH ? ORDER BY rank LIMIT {MOST}", (query,)
        )
        return [self._found[number] for (number,) in rows]


class Grep:
    """Files by the number of different words of the question, then by the number of lines that have one."""

    def build(self, texts: Iterable[tuple[str, str]]) -> None:
        """Keep the files."""
        self._texts = list(texts)

    def ask(self, question: str) -> list[Found]:
        """Return 5 lines around each line with a word, of the best files."""
        words = [word.text for word in words_of(question)]
        pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
        ranked = []
        for file, text in self._texts:
            seen = Counter(found.lower() for found in pattern.findall(text))
            if seen:
                ranked.append((-len(seen), -seen.total(), file, text))
        found = []
        for _, _, file, text in sorted(ranked)[:MOST]:
            lines = text.split("\n")
            hits = [number for number, line in enumerate(lines, 1) if pattern.search(line)]
            for number in hits[:5]:
                first, last = max(1, number - 2), min(len(lines), number + 2)
                found.append(Found(file, first, last, "\n".join(lines[first - 1 : last])))
        return found[:MOST]


def spaced(text: str) -> str:
    """Return a text with its Chinese, Japanese and Korean parts as pairs of characters."""
    return " ".join(parted(text))


RIVALS: dict[str, Callable[[], Rival | Grep]] = {
    "names": lambda: Rival(whole, by_name=True),
    "grep": Grep,
    "BM25, whole files": lambda: Rival(whole),
    "BM25, 1,000-token pieces": lambda: Rival(pieces),
}
