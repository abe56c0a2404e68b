"""What a source of resources is: one system (a folder, a database, a log …) turned into resources.

The server asks every source the same questions, so all of them look alike to it. The sources that come with
Carrel are in ``carrel.sources``; anything with these abilities can be passed to ``Server.share``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Generic, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from carrel.wire.completion import Completion
from carrel.wire.resources import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents

__all__ = ["Change", "Hit", "Page", "Source"]

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Part of a list. ``next_cursor`` is what to ask the rest with; None at the end."""

    items: Sequence[T]
    next_cursor: str | None = None


class Change(msgspec.Struct, frozen=True):
    """Something happened to a resource. A rename is one ``removed`` and one ``created``."""

    kind: Literal["created", "changed", "removed"]
    uri: str


class Hit(msgspec.Struct, frozen=True):
    """A resource that was found, best ones with the highest ``score`` (0 to 1)."""

    resource: Resource
    score: float
    snippet: str | None = None


@runtime_checkable
class Source(Protocol):
    """One system, as resources. Every method may be called concurrently, between ``start`` and ``stop``.

    ``carrel.server.context.CLIENT.get()`` names the client that a method is called for, whose requests may be limited
    by it. When the client cancels its request, or goes away, the method is cancelled.
    """

    name: str

    def owns(self, uri: str) -> bool:
        """Say whether ``uri`` is one of this source's, whether or not there is such a resource. Cheap."""

    async def start(self) -> None:
        """Open what is needed. Called once, before anything else."""

    async def stop(self) -> None:
        """Let go of everything that ``start`` and ``watch`` opened."""

    async def list(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return up to ``limit`` resources in a stable order, from the start or from ``cursor``.

        Raises:
            InvalidCursor: the cursor is not one that this source gave out.
        """

    def templates(self) -> Sequence[ResourceTemplate]:
        """Return the URI templates to advertise."""

    async def read(self, uri: str) -> Sequence[TextResourceContents | BlobResourceContents]:
        """Return the contents of a resource, or of the window of it that ``uri`` asks for.

        Raises:
            ResourceNotFound: there is no such resource.
            ResourceForbidden: it may not be read.
            ResourceTooLarge: it is over the limit; the message names the window to use.
            InvalidParams: the URI or its window makes no sense.
        """

    async def children(self, uri: str, cursor: str | None, limit: int) -> Page[Resource]:
        """Return the resources directly inside a directory-like resource, a page at a time.

        Raises:
            ResourceNotFound: there is no such resource, or it has nothing inside by its nature.
        """

    async def complete(self, template: str, variable: str, prefix: str, context: dict[str, str]) -> Completion:
        """Suggest values for a variable of one of ``templates()``; at most 100, best first."""

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """Find resources for a query, best first."""

    def watch(self) -> AsyncIterator[Collection[Change]]:
        """Yield what changes, in batches, until the iterator is closed. Listens rather than polls.

        The first batch is empty, and comes as soon as nothing is missed any more: subscriptions wait for it, for some
        seconds.
        """
