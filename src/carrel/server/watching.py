"""Watches on the sources of a server: notifications of changes, and waiting until a source listens for them.

A source begins to listen in the background when the server starts. Until it listens, responses that promise a client
notifications wait for it: those to a subscription, and the first list of a session. A source that takes too long is not
waited for; once it listens, clients are notified that its resources may have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from carrel.errors import MCPError
from carrel.log import Log

if TYPE_CHECKING:
    from carrel.server.app import Server
    from carrel.server.source import Source

__all__ = ["Following", "listening"]

log = Log("carrel")

#: Seconds that the response to a subscription waits for a source to listen.
PATIENCE = 5.0

#: Seconds that a list waits for a source to listen.
LIST_PATIENCE = 0.2


class Following:
    """Watch on one source, in a task. ``listens`` is set once no change is missed, or no more changes come."""

    def __init__(self, app: Server, source: Source) -> None:
        self.source = source
        self.listens = asyncio.Event()
        self.late = False
        """Whether a request has stopped waiting before the source began to listen."""
        self._app = app
        self.task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        app, source = self._app, self.source
        try:
            async for changes in source.watch():
                if not self.listens.is_set():  # the first batch says so, and is empty
                    self._begin()
                uris = [change.uri for change in changes if app.offers_subscriptions]
                listed = any(change.kind != "changed" for change in changes)
                app.announce(uris, ("resources_list_changed",) if listed else (), seen="everywhere")
        except MCPError as error:
            log.warning("%s is not watched: %s", source.name, error)
        except Exception:
            log.exception("watching %s has ended", source.name)
        finally:
            self.listens.set()
            app.forming.discard(self)

    def _begin(self) -> None:
        self.listens.set()
        self._app.forming.discard(self)
        if self.late:
            uris = [uri for uri in self._app.hub.uris if self.source.owns(uri)]
            self._app.announce(uris, ("resources_list_changed",), seen="everywhere")


async def listening(sources: Collection[Following], patience: float, *, promised: bool) -> None:
    """Wait until sources listen, up to ``patience`` seconds; with ``promised``, log which ones do not."""
    try:
        async with asyncio.timeout(patience):
            for following in sources:
                await following.listens.wait()
    except TimeoutError:
        for following in sources:
            if not following.listens.is_set():
                following.late = True
                if promised:
                    name = following.source.name
                    log.warning("%s is not watched after %g s; clients are told when it is", name, patience)
