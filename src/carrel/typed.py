"""Input that was typed before a question appeared: it is not an answer to the question."""

from __future__ import annotations

import contextlib

__all__ = ["discard_typed"]


def discard_typed(descriptor: int) -> None:
    """Discard what was typed at a terminal and not read yet. Other files are left alone."""
    try:
        import termios
    except ImportError:  # Windows
        _discard_keys()
        return
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(descriptor, termios.TCIFLUSH)


def _discard_keys() -> None:
    with contextlib.suppress(ImportError):
        import msvcrt

        while msvcrt.kbhit():  # type: ignore[attr-defined,unused-ignore]
            msvcrt.getwch()  # type: ignore[attr-defined,unused-ignore]
