"""Terms of texts: words in lower case, without accents, and stemmed. Each distinct word is stemmed once."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Stems"]

#: Number of words whose terms are kept; then all are forgotten.
KEPT = 30_000
#: Letters of ASCII in lower case, digits, and spaces for all other characters.
_WORDS = bytes(ord(chr(byte).lower()) if byte < 128 and chr(byte).isalnum() else 32 for byte in range(256))


class Stems(dict[str, str]):
    """Terms of words. ``split`` returns the words of a text, and ``stem`` the terms of a word, of which it has one."""

    def __init__(self, split: Callable[[str], list[str]], stem: Callable[[str], list[str]]) -> None:
        self._split = split
        self._stem = stem

    def __missing__(self, word: str) -> str:
        if len(self) >= KEPT:
            self.clear()
        term = self[word] = " ".join(self._stem(word))
        return term

    def of(self, text: str) -> str:
        """Return the terms of a text, separated by spaces."""
        ascii_only = text.isascii()
        words = text.encode("ascii").translate(_WORDS).decode("ascii").split() if ascii_only else self._split(text)
        return " ".join(map(self.__getitem__, words))
