"""Gate of a policy that is read again when its file changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from carrel.errors import ConfigError
from carrel.file_changes import FileChanges
from carrel.log import Log

if TYPE_CHECKING:
    from carrel.catalog.rules import RuleView
    from carrel.policy.policy import Policy
    from carrel.policy.server_view import ServerView
    from carrel.protocol.principal import Principal

__all__ = ["PolicyGate"]

log = Log("carrel.policy")


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
        changes = FileChanges([file], self._read_again)
        self.policy = load()
        """The policy in force."""
        self.start, self.stop, self.look = changes.start, changes.stop, changes.look

    def view(self, principal: Principal | None) -> RuleView | ServerView:
        """Return the view of a caller."""
        return self.policy.view(principal)

    def _read_again(self) -> None:
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
