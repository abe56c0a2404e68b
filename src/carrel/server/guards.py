"""Subscriptions to resources that exist only for some callers: existence is checked again at each change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from carrel.catalog.access import request_of
from carrel.protocol.methods import SUBSCRIBE
from carrel.protocol.server import Call, ServerProtocol
from carrel.wire.resources import SubscribeParams

if TYPE_CHECKING:
    from carrel.catalog.catalog import Catalog
    from carrel.server.subscriptions import Subscription

__all__ = ["guard", "guard_session"]


def guard(catalog: Catalog, entry: Subscription, uris: Iterable[str], call: Call) -> None:
    """Check at each change of a resource with ``when`` whether it still exists for the caller of a request."""
    _guard(catalog, entry, uris, lambda uri: catalog.shows(uri, request_of(call)))


def guard_session(catalog: Catalog, entry: Subscription, uris: Iterable[str], connection: ServerProtocol) -> None:
    """Do the same for subscriptions of a session that another replica has taken: there is no request for them here."""

    def shows(uri: str) -> Awaitable[bool]:
        assert connection.peer is not None
        params, client = SubscribeParams(uri=uri), entry.client
        call = Call(connection, connection.peer, "", SUBSCRIBE, params, Raw(b"{}"))
        if client is not None:
            call.client, call.principal = client, client.principal
        return catalog.shows(uri, request_of(call))

    _guard(catalog, entry, uris, shows)


def _guard(catalog: Catalog, entry: Subscription, uris: Iterable[str], shows: Callable[[str], Awaitable[bool]]) -> None:
    for uri in uris:
        if catalog.is_guarded(uri):
            if entry.shows is None:
                entry.shows = {}
            entry.shows[uri] = partial(shows, uri)
