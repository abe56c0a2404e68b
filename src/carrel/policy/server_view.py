"""View of a caller of a gateway: decides about targets by their server, in all spellings that the gateway accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from carrel.protocol.principal import View
from carrel.uri.intervals import Intervals

if TYPE_CHECKING:
    from carrel.catalog.rules import Rule, RuleView
    from carrel.protocol.methods import Verb

__all__ = ["FindTarget", "GatewayTarget", "ServerView"]


class GatewayTarget(NamedTuple):
    """Tool, prompt or URI of a server of a gateway.

    ``listed`` is its name or URI as clients see it, ``others`` are other spellings of it: with the prefix of its server
    and without. ``server`` is empty for entries of the gateway itself.
    """

    server: str
    listed: str
    others: tuple[str, ...] = ()


FindTarget: TypeAlias = "Callable[[Verb, str], GatewayTarget | None]"
"""Finds the tool, prompt or URI of a gateway; returns None if its server is not known."""


class HasTargets(Protocol):
    """A policy, which may find targets of a gateway."""

    find_target: FindTarget | None


class ServerView(View):
    """View that decides about a target by the rules for its server.

    A rule that denies holds for every spelling of a target: another server that offers a tool of the same name changes
    how it is listed, and must not change which targets are denied. ``views`` are the views by server. ``elsewhere`` is
    the view for targets of other servers, ``unknown`` for targets whose server is not known.
    """

    __slots__ = ("_all", "_elsewhere", "_policy", "_unknown", "_views", "everybody", "hides", "key")
    constant = True

    def __init__(
        self, views: Mapping[str, RuleView], elsewhere: RuleView, unknown: RuleView, policy: HasTargets
    ) -> None:
        self._views = views
        self._elsewhere = elsewhere
        self._unknown = unknown
        self._policy = policy
        self._all = (*views.values(), elsewhere, unknown)
        self.key = "\n".join(view.key for view in self._all)
        self.hides = any(view.hides for view in self._all)
        self.everybody = all(view.everybody for view in self._all)

    def _find(self, verb: Verb, target: str) -> tuple[RuleView, str, set[str]]:
        """Return the view for a target, the target as it is listed, and its other spellings."""
        find = self._policy.find_target
        found = None if find is None else find(verb, target)
        if found is None:
            return self._unknown, target, set()
        view = self._views.get(found.server, self._elsewhere)
        return view, found.listed, {target, *found.others} - {found.listed}

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource, tool or prompt."""
        view, listed, others = self._find(verb, target)
        return view.allows(verb, listed) and not any(view.denies(verb, other) for other in others)

    def intervals(self, verb: Verb) -> Intervals:
        """Return intervals in which all keys are that the caller may use and, of resources, read."""
        found = Intervals()
        for view in self._all:
            found = found | view.intervals(verb)
        return found

    def reaches(self, verb: Verb, location: str, head: str) -> bool:
        """Return whether a template can name a resource on which a verb is allowed."""
        return self._find(verb, location)[0].reaches(verb, location, head)

    def differs(self, uri: str) -> bool:
        """Return whether callers with other views may get another answer about a resource."""
        return not self.everybody

    def explain(self, verb: Verb, target: str) -> Rule | None:
        """Return the deciding rule: a rule that denies, else a rule that allows, else None."""
        view, listed, others = self._find(verb, target)
        for spelling in (listed, *sorted(others)):
            found = view.explain(verb, spelling)
            if found is not None and not found.allow:
                return found
        return view.explain(verb, listed)
