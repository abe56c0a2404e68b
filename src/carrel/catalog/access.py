"""Access gate: decides which resources, tools and prompts the caller of a request may use.

    class ByTeam:
        def view(self, principal):
            return TeamView("guests" if principal is None else principal.claims["team"])

    class TeamView(View):
        def __init__(self, team):
            self.key = team

        def allows(self, verb, target):
            return target.startswith(f"notes://{self.key}/") if verb == "read" else verb != "call"

    app = Server("notes", gate=ByTeam())

For a denied target, every method returns the same error as for a target that does not exist, on every transport.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol

from carrel.catalog.provider import Contexts, Request, Visible
from carrel.protocol.principal import View
from carrel.uri.parse import SIMPLE, canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from carrel.protocol.channel import Channel
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.uri.intervals import Intervals
    from carrel.uri.template import UriTemplate

__all__ = [
    "NAME_VERBS",
    "UNRESTRICTED",
    "Gate",
    "NameMapping",
    "RenamedView",
    "View",
    "find_view",
    "may_reach",
    "request_of",
    "visible_to",
]

#: Verbs whose target is the name of a tool or prompt; the target of other verbs is a URI.
NAME_VERBS = frozenset({"call", "get"})

#: Decisions that are cached, for all views together.
CACHED = 4096
#: Characters of a target up to which decisions are cached.
MAX_CACHED = 512

#: Matches a URI with a segment ``.`` or ``..``, as handlers see it, with decoded slashes.
DOT_SEGMENT = re.compile(r"[^?#]*?(?:[:/]|%2F|%5C)\.\.?(?:[/?#]|%2F|%5C|\Z)", re.IGNORECASE)


class Gate(Protocol):
    """Access gate of a server (``Server(gate=…)``)."""

    def view(self, principal: Principal | None) -> View:
        """Return the view of a caller, ``UNRESTRICTED`` if it may use everything.

        Called for each request; must not block. A request fails if it returns None: a caller that a policy does not
        mention must not get everything.
        """


class GateView(View):
    """View of a caller: the targets that both the gate and the view of its principal allow.

    Every verb on a resource also requires the verb read. URIs are checked as the client wrote them and, if different,
    in canonical form; both must be allowed. If rules hide anything, a URI with a segment ``.`` or ``..`` is denied:
    rules see text, but a handler may resolve it to another resource.
    """

    __slots__ = ("_gate", "_own")

    def __init__(self, gate: View, own: View | None) -> None:
        self._gate = gate
        self._own = own
        self.key = f"gate {gate.key}" if own is None else f"{own.key}\ngate {gate.key}"
        self.hides = gate.hides or (own is not None and own.hides)
        self.everybody = gate.everybody and (own is None or own.everybody)

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource, tool or prompt."""
        if self._own is not None and not self._own.allows(verb, target):
            return False
        gate = self._gate
        if not gate.allows(verb, target):
            return False
        if verb in NAME_VERBS:
            return True
        if verb != "read" and not gate.implies_read(verb) and not gate.allows("read", target):
            return False
        other = canonical(target)
        if "." in other and self.hides and DOT_SEGMENT.match(other):
            return False
        return other == target or (gate.allows("read", other) and (verb == "read" or gate.allows(verb, other)))

    def intervals(self, verb: Verb) -> Intervals | None:
        """Return intervals of keys in which all targets of an allowed verb are, or None."""
        return _common(self._gate.intervals(verb), None if self._own is None else self._own.intervals(verb))

    def reaches(self, verb: Verb, location: str, head: str) -> bool:
        """Return whether a resource template can name something on which a verb is allowed."""
        if self._own is not None and not self._own.reaches(verb, location, head):
            return False
        gate = self._gate
        return all(
            gate.reaches("read", uri, head) and (verb == "read" or gate.reaches(verb, uri, head))
            for uri in {location, canonical(location)}
        )

    def permits(self, method: str) -> bool:
        """Return whether requests of a method are permitted."""
        return self._own is None or self._own.permits(method)

    def differs(self, uri: str) -> bool:
        """Return whether callers with other views may get another answer about a resource."""
        return self._gate.differs(uri) or (self._own is not None and self._own.differs(uri))


@lru_cache(CACHED)
def decided(decide: Callable[[str], bool], target: str) -> bool:
    """Return the decision of a final view about a target, from the cache if possible."""
    return decide(target)


class KeptGateView(GateView):
    """View of a caller by a gate's constant view, for callers whose principals have no view."""

    __slots__ = ("_deciders", "final")

    def __init__(self, gate: View) -> None:
        super().__init__(gate, None)
        self._deciders: dict[str, Callable[[str], bool]] = {}
        self.final = gate.final

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource, tool or prompt."""
        decide = self._deciders.get(verb) or self.decider(verb)
        return decided(decide, target) if self.final and len(target) <= MAX_CACHED else decide(target)

    def decider(self, verb: Verb) -> Callable[[str], bool]:
        """Return a function that returns whether a verb is allowed on a target, for many targets."""
        found = self._deciders.get(verb)
        if found is None:
            found = self._deciders[verb] = self._compile(verb)
        return found

    def _compile(self, verb: Verb) -> Callable[[str], bool]:
        allows = self._gate.decider(verb)
        if verb in NAME_VERBS:
            return allows
        check, is_simple = super().allows, SIMPLE.match
        if verb == "read" or self._gate.implies_read(verb):
            return lambda target: allows(target) and (is_simple(target) is not None or check(verb, target))
        reads = self._gate.decider("read")
        return lambda target: allows(target) and (reads(target) if is_simple(target) else check(verb, target))

    def list_selector(self, verb: Verb) -> Callable[[Sequence[str], Collection[str]], list[str]] | None:
        """Return a function that returns the allowed keys of a sorted list, or None.

        The function also takes the URIs of the list that may have another canonical form.
        """
        select = self._gate.selector(verb)
        if select is None or verb in NAME_VERBS:
            return None
        reads = select if self._gate.implies_read(verb) else self._gate.selector("read")
        if reads is None:
            return None
        decide = self.decider(verb)

        def selected(keys: Sequence[str], other: Collection[str]) -> list[str]:
            found = select(keys)
            if reads is not select:
                found = reads(found)
            return [key for key in found if key not in other or decide(key)] if other else found

        return selected


class Unrestricted(View):
    """View of a caller that may use everything, by a gate that may hide things from others."""

    key = "gate"
    hides = False

    def allows(self, verb: Verb, target: str) -> bool:
        """Return True."""
        return True


UNRESTRICTED: View = Unrestricted()


class NameMapping(Protocol):
    """Mapping of a provider's names and URIs to the names and URIs that clients see."""

    def uri_out(self, uri: str) -> str:
        """Return a URI as clients see it."""

    def name_out(self, kind: Literal["tool", "prompt"], name: str) -> str:
        """Return the name of a tool or prompt as clients see it."""

    def intervals_in(self, verb: Verb, intervals: Intervals) -> Intervals | None:
        """Convert intervals of client names or URIs to the provider's names or URIs; return None if impossible."""


class RenamedView(View):
    """View that takes a provider's names and URIs, which clients see under other names and URIs."""

    __slots__ = ("names", "view")

    def __init__(self, view: View, names: NameMapping) -> None:
        self.view = view
        self.names = names
        self.key = view.key
        self.hides = view.hides
        self.everybody = view.everybody

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource, tool or prompt."""
        if verb == "call":
            return self.view.allows(verb, self.names.name_out("tool", target))
        if verb == "get":
            return self.view.allows(verb, self.names.name_out("prompt", target))
        return self.view.allows(verb, self.names.uri_out(target))

    def intervals(self, verb: Verb) -> Intervals | None:
        """Return intervals of keys in which all targets of an allowed verb are, or None."""
        found = self.view.intervals(verb)
        return None if found is None else self.names.intervals_in(verb, found)

    def reaches(self, verb: Verb, location: str, head: str) -> bool:
        """Return whether a resource template can name something on which a verb is allowed."""
        return self.view.reaches(verb, self.names.uri_out(location), self.names.uri_out(head))

    def permits(self, method: str) -> bool:
        """Return whether requests of a method are permitted."""
        return self.view.permits(method)

    def differs(self, uri: str) -> bool:
        """Return whether callers with other views may get another answer about a resource."""
        return self.view.differs(self.names.uri_out(uri))


def find_view(gate: Gate | None, principal: Principal | None) -> View | None:
    """Return the view of a caller: None if nothing is hidden from any caller.

    Raises:
        TypeError: the gate has returned no view.
    """
    own = None if principal is None else principal.view
    if gate is None:
        return own
    given = gate.view(principal)
    if not isinstance(given, View):
        raise TypeError(f"{type(gate).__name__}.view returned {given!r}: it must be a View, or UNRESTRICTED")
    if own is not None:
        return GateView(given, own)
    if given is UNRESTRICTED:
        return given
    if not given.constant:
        return GateView(given, None)
    if given.kept is None:
        given.kept = KeptGateView(given)
    return given.kept


def may_reach(view: View, verb: Verb, template: UriTemplate, values: Mapping[str, str] | None = None) -> bool:
    """Return whether a template, with values for some variables, can name something on which a verb is allowed."""
    given = values or {}
    location, head = template.location(given), template.head(given)
    return view.allows(verb, location) if head == location else view.reaches(verb, location, head)


def _common(one: Intervals | None, other: Intervals | None) -> Intervals | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def visible_to(view: View | None) -> Visible | None:
    """Return the predicate for resources that are visible to the caller with a view; None if all of them are."""
    return None if view is None or not view.hides else view.decider("read")


def request_of(
    call: Call,
    channel: Channel | None = None,
    cursor: str | None = None,
    limit: int = 100,
    contexts: Contexts | None = None,
) -> Request:
    """Return the request to providers of a call, with the rights of its caller."""
    view = call.view
    if view is None:
        return Request(call, channel, cursor=cursor, limit=limit, contexts=contexts)
    return Request(call, channel, visible_to(view), cursor, limit, view=view, contexts=contexts)
