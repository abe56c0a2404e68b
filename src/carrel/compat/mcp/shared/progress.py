"""Progress that is counted up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from carrel.compat.mcp.types.base import ProgressToken

__all__ = ["Progress", "ProgressContext", "progress"]


class Progress(BaseModel):
    """State of progress."""

    progress: float
    total: float | None


@dataclass
class ProgressContext:
    """Progress of a request. Each call adds to it and sends a notification."""

    session: Any
    progress_token: ProgressToken
    total: float | None
    current: float = field(default=0.0, init=False)

    async def progress(self, amount: float, message: str | None = None) -> None:
        """Add to the progress."""
        self.current += amount
        await self.session.send_progress_notification(
            self.progress_token, self.current, total=self.total, message=message
        )


@contextmanager
def progress(ctx: Any, total: float | None = None) -> Iterator[ProgressContext]:
    """Yield the progress of a request.

    Raises:
        ValueError: the client did not ask for progress.
    """
    if ctx.meta is None or ctx.meta.progressToken is None:
        raise ValueError("No progress token provided")
    yield ProgressContext(ctx.session, ctx.meta.progressToken, total)
