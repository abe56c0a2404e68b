"""ContextPack: a packed context that can be packed again after a change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any, Protocol

from carrel.context.formats import render
from carrel.context.results import ContextChanges, ContextItem, LeftOut, PackedContext, as_json

__all__ = ["ContextPack", "Packed", "changes_between"]


class Packed:
    """Packed context, with its rendered text."""

    def __init__(self, packed: PackedContext) -> None:
        self.packed = packed
        """The data: question, budget, tokens, items, and the resources that are left out."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.items)} items, {self.tokens} of {self.packed.budget} tokens)"

    @property
    def items(self) -> tuple[ContextItem, ...]:
        """The items, in the order of the text."""
        return self.packed.items

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Resources that are left out, with reasons."""
        return self.packed.left_out

    @property
    def tokens(self) -> int:
        """Tokens of ``text``, never more than the budget."""
        return self.packed.tokens

    @property
    def text(self) -> str:
        """Text for a model, in the format of the pack; empty without items."""
        return render(self.packed.items, self.packed.format)

    def as_json(self) -> dict[str, Any]:
        """Return the pack as JSON values."""
        return as_json(self.packed)


class Repacking(Protocol):
    """Question that can be packed again."""

    async def pack(self) -> PackedContext:
        """Pack the question."""

    async def look(self) -> None:
        """Wait until changed resources are indexed."""

    async def changed(self, uris: Collection[str]) -> None:
        """Wait until changes were indexed that the last pack does not have. ``uris`` are the packed resources."""

    def end(self) -> None:
        """Stop waiting for changes."""


class ContextPack(Packed):
    """Packed context that can be packed again."""

    def __init__(self, packed: PackedContext, packing: Repacking) -> None:
        super().__init__(packed)
        self._packing = packing

    async def refresh(self) -> ContextChanges:
        """Wait until changed resources are indexed, pack again, and return the difference."""
        await self._packing.look()
        return await self._pack_again()

    async def watch(self) -> AsyncIterator[ContextChanges]:
        """Pack again whenever resources change, and yield the differences.

        async for changes in pack.watch():
            print(changes.changed, pack.text)
        """
        try:
            while True:
                await self._packing.changed({item.uri for item in self.items})
                changes = await self._pack_again()
                if changes:
                    yield changes
        finally:
            self._packing.end()

    async def _pack_again(self) -> ContextChanges:
        before, self.packed = self.packed, await self._packing.pack()
        return changes_between(before.items, self.packed.items)


def changes_between(before: Iterable[ContextItem], after: Iterable[ContextItem]) -> ContextChanges:
    """Return the difference between the items of two packs. Items of one resource are compared in their order."""
    old, new = _by_resource(before), _by_resource(after)
    added: list[ContextItem] = []
    removed: list[ContextItem] = []
    changed: list[ContextItem] = []
    for key, items in new.items():
        others = old.get(key, [])
        changed += [
            item
            for item, other in zip(items, others, strict=False)
            if (item.text, item.lines) != (other.text, other.lines)
        ]
        added += items[len(others) :]
    for key, items in old.items():
        removed += items[len(new.get(key, ())) :]
    return ContextChanges(added=tuple(added), removed=tuple(removed), changed=tuple(changed))


def _by_resource(items: Iterable[ContextItem]) -> dict[tuple[str, str], list[ContextItem]]:
    found: dict[tuple[str, str], list[ContextItem]] = {}
    for item in items:
        found.setdefault((item.server, item.uri), []).append(item)
    return found
