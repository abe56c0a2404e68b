"""Gate of a policy that is read again when its file changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.regular_file import timestamp_of

if TYPE_CHECKING:
    from carrel.catalog.rules import RuleView
    from carrel.policy.policy import Policy
    from carrel.policy.server_view import ServerView
    from carrel.protocol.principal import Principal

__all__ = ["PolicyGate"]

log = Log("carrel.policy")

#: Seconds between two looks at the file. A change is read when the file is the same in two of them.
PAUSE = 0.4


class PolicyGate:
    """Gate of a server by the policy in a file.

    Args:
        file: the path of the file, for its changes.
        load: reads the policy. A ConfigError keeps the last policy, and is logged.
        changed: is called on the event loop after the policy has changed.
    """

    def __init__(self, file: str, load: Callable[[], Policy], changed: Callable[[], None] | None = None) -> None:
        self._file = file
        self._load = load
        self._changed = changed
        self._seen = self._last = timestamp_of(self._file)
        self.policy = load()
        """The policy in force."""
        self._following: asyncio.Task[None] | None = None

    def view(self, principal: Principal | None) -> RuleView | ServerView:
        """Return the view of a caller."""
        return self.policy.view(principal)

    async def start(self) -> None:
        """Begin to follow the file."""
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop following the file."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(PAUSE)
            self.look()

    def look(self) -> None:
        """Read the policy again if the file has changed, and is not being written any more."""
        seen, last = timestamp_of(self._file), self._last
        self._last = seen
        if seen == self._seen or seen != last:
            return
        self._seen = seen
        try:
            self.policy = self._load()
        except ConfigError as error:
            log.error("the policy is not changed: %s", error)
            return
        except Exception:
            log.exception("the policy is not changed: %s cannot be read", self._file)
            return
        log.warning("the policy has been read again: %s", self._file)
        if self._changed is not None:
            self._changed()
