"""Synchronous ContextPack: ``carrel.context.pack.ContextPack`` without ``await``."""

from __future__ import annotations

from carrel.context import pack as asynchronous
from carrel.context.results import ContextChanges
from carrel.sync.loop import run

__all__ = ["ContextPack"]


class ContextPack(asynchronous.Packed):
    """Packed context, whose ``refresh`` waits."""

    def __init__(self, pack: asynchronous.ContextPack) -> None:
        super().__init__(pack.packed)
        self._pack = pack

    def refresh(self) -> ContextChanges:
        """Wait until changed resources are indexed, pack again, and return the difference."""
        changes = run(self._pack.refresh())
        self.packed = self._pack.packed
        return changes
