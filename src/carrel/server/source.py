"""Protocol of resource sources: one system (a folder, a database, a log …) turned into resources.

The sources that come with Carrel are in ``carrel.sources``; any implementation of the protocol can be passed to
``Server.share``.
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
    """Page of a list. ``next_cursor`` is the cursor of the next page; None at the end."""

    items: Sequence[T]
    next_cursor: str | None = None


class Change(msgspec.Struct, frozen=True):
    """Change of a resource. A rename is one ``removed`` and one ``created``."""

    kind: Literal["created", "changed", "removed"]
    uri: str


class Hit(msgspec.Struct, frozen=True):
    """Search result: a resource with its ``score`` (0 to 1), the highest for the best."""

    resource: Resource
    score: float
    snippet: str | None = None


@runtime_checkable
class Source(Protocol):
    """Source of resources. Every method may be called concurrently, between ``start`` and ``stop``.

    ``carrel.server.context.CLIENT.get()`` names the client that a method is called for, so that a source can limit
    its requests. When the client cancels its request, or goes away, the method is cancelled.
    """

    name: str

    def owns(self, uri: str) -> bool:
        """Return whether ``uri`` belongs to this source, whether or not there is such a resource. Cheap."""

    async def start(self) -> None:
        """Start the source: open what it needs. Called once, before anything else."""

    async def stop(self) -> None:
        """Stop the source: release everything that ``start`` and ``watch`` opened."""

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
        """Return suggestions for a variable of one of ``templates()``; at most 100, best first."""

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """Return the resources that match a query, best first."""

    def watch(self) -> AsyncIterator[Collection[Change]]:
        """Yield changes, in batches, until the iterator is closed. Listens rather than polls.

        The first batch is empty, and comes as soon as no change is missed any more: subscriptions wait for it, for
        some seconds.
        """
