"""Discarding of terminal input that was typed before a prompt appeared."""

from __future__ import annotations

import contextlib

__all__ = ["discard_typed"]


def discard_typed(descriptor: int) -> None:
    """Discard the unread input of a terminal. A no-op for other files."""
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
