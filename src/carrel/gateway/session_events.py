"""Events of the sessions with a remote server (changes of lists and resources, log messages) and their recipients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.host.relayed import pass_log

if TYPE_CHECKING:
    from carrel.client.handlers import LogMessage
    from carrel.host.remote import RemoteProvider

__all__ = ["DefaultSessionOwner", "log_to"]


class DefaultSessionOwner(msgspec.Struct, frozen=True):
    """Owner of the default session, if any: the recipient of its changes."""

    key: Any

    def include(self, client: Any) -> bool:
        return self.key is not None and bool(self.key.include(client))


def log_to(provider: RemoteProvider, owner: Callable[[LogMessage], bool] | None) -> None:
    """Send log messages without a call to the owner of the session, or to no one if ``owner`` is None."""
    handlers = provider.client.session.handlers
    handler = handlers.log_of(None)
    if getattr(handler, "func", handler) is pass_log:  # not a handler of the application
        handlers.change_log(pass_log if owner is None else partial(pass_log, owner=owner))
