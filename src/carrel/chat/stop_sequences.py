"""Stop sequences, for vendors that do not know them: text is cut before the first one."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["StopSequences"]


class StopSequences:
    """Streamed text up to the first stop sequence. A possible beginning of a stop sequence is held back."""

    def __init__(self, sequences: Sequence[str]) -> None:
        self._sequences = [sequence for sequence in sequences if sequence]
        self._held = ""
        self.stopped = False

    def feed(self, piece: str) -> str:
        """Return the text that can be passed on; ``stopped`` is True once a stop sequence was found."""
        text = self._held + piece
        starts = [start for sequence in self._sequences if (start := text.find(sequence)) >= 0]
        if starts:
            self.stopped, self._held = True, ""
            return text[: min(starts)]
        keep = max((overlap(text, sequence) for sequence in self._sequences), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def end(self) -> str:
        """Return the text that was held back."""
        held, self._held = self._held, ""
        return held


def overlap(text: str, sequence: str) -> int:
    """Return how many characters at the end of a text are the beginning of a sequence, but not all of it."""
    longest = min(len(text), len(sequence) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(sequence[:length])), 0)
