"""Changes that providers report: of resources and of lists, for all clients or for some."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from carrel.protocol.server import Connection

__all__ = ["Change", "Events", "Interest", "ListChanges", "ListName", "Recipients", "list_changes"]

ListName: TypeAlias = Literal["tools_list_changed", "prompts_list_changed", "resources_list_changed"]
"""Name of a list whose clients are notified when it changes."""

ListChanges: TypeAlias = Mapping[ListName, Collection[str] | None]
"""Lists that have changed, each with the URIs, templates or names that are new, gone or different; None: not known."""


class Change(msgspec.Struct, frozen=True):
    """Change of a resource. A rename is one ``removed`` and one ``created``."""

    kind: Literal["created", "changed", "removed"]
    uri: str


class Recipients(Protocol):
    """Clients that a change is for, where it is not for all. Hashable: equal ones are notified together."""

    def include(self, connection: Connection) -> bool:
        """Return whether the client of a connection is one of them."""


class Interest:
    """URIs that subscribers want to hear of, kept up to date while a provider is watched."""

    def __init__(self, uris: Collection[str] = ()) -> None:
        self.uris = uris
        """URIs with a subscription, in normal form. Do not change them."""
        self._changed = asyncio.Event()

    def of(self, recipients: Recipients) -> Collection[str]:
        """Return the URIs to which some clients have subscribed; all, where it is not known who has."""
        return self.uris

    def notify(self) -> None:
        """Wake up the tasks that wait for a change of ``uris``."""
        self._changed.set()

    async def wait(self) -> None:
        """Wait until ``uris`` have changed since the last call."""
        await self._changed.wait()
        self._changed.clear()


class Events(Protocol):
    """Receiver of the changes of a provider. Its methods may be called from any thread, between start and stop."""

    def publish(
        self,
        changes: Iterable[Change] = (),
        lists: Iterable[ListName] | ListChanges = (),
        recipients: Recipients | None = None,
    ) -> None:
        """Report changed resources and changed lists (the list of resources follows from the changes).

        If ``lists`` names the changed entries, only callers who may see one of them are notified; with ``recipients``,
        only these clients.
        """


def list_changes(lists: Iterable[ListName] | ListChanges) -> ListChanges:
    """Return the changed lists with the names of their changed entries, None if unknown."""
    return lists if isinstance(lists, Mapping) else dict.fromkeys(lists)
