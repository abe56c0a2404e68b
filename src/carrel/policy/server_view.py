"""View of a caller of a gateway, by rules that are for single servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from carrel.protocol.principal import View
from carrel.uri.intervals import Intervals

if TYPE_CHECKING:
    from carrel.catalog.rules import Rule, RuleView
    from carrel.protocol.methods import Verb

__all__ = ["Owner", "ServerView"]

Owner: TypeAlias = "Callable[[Verb, str], str | None]"
"""Returns the server of a tool, prompt or URI, or None if it is not known."""


class HasOwner(Protocol):
    """A policy, which may find the servers of targets."""

    owner: Owner | None


class ServerView(View):
    """View that decides about a target by the rules for its server.

    ``views`` are the views by server. ``elsewhere`` is the view for targets of other servers, ``unknown`` for targets
    whose server is not known.
    """

    __slots__ = ("_all", "_elsewhere", "_policy", "_unknown", "_views", "everybody", "hides", "key")

    def __init__(self, views: Mapping[str, RuleView], elsewhere: RuleView, unknown: RuleView, policy: HasOwner) -> None:
        self._views = views
        self._elsewhere = elsewhere
        self._unknown = unknown
        self._policy = policy
        self._all = (*views.values(), elsewhere, unknown)
        self.key = "\n".join(view.key for view in self._all)
        self.hides = any(view.hides for view in self._all)
        self.everybody = all(view.everybody for view in self._all)

    def _of(self, verb: Verb, target: str) -> RuleView:
        owner = self._policy.owner
        server = None if owner is None else owner(verb, target)
        return self._unknown if server is None else self._views.get(server, self._elsewhere)

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource, tool or prompt."""
        return self._of(verb, target).allows(verb, target)

    def intervals(self, verb: Verb) -> Intervals:
        """Return intervals in which all keys are that the caller may use and, of resources, read."""
        found = Intervals()
        for view in self._all:
            found = found | view.intervals(verb)
        return found

    def reaches(self, verb: Verb, location: str, head: str) -> bool:
        """Return whether a template can name a resource on which a verb is allowed."""
        return any(view.reaches(verb, location, head) for view in self._all)

    def differs(self, uri: str) -> bool:
        """Return whether callers with other views may get another answer about a resource."""
        return not self.everybody

    def explain(self, verb: Verb, target: str) -> Rule | None:
        """Return the deciding rule: a rule that denies, else a rule that allows, else None."""
        return self._of(verb, target).explain(verb, target)
