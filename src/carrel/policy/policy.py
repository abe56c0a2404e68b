"""Policy: roles, and the rules that allow or deny what their callers do. It is the gate of a server.

A rule that denies overrides all rules that allow; a target that no rule allows is denied. Callers whose rules and
claims are equal share a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from carrel.catalog.rules import Rule, Rules
from carrel.policy.authzen_options import AuthZenOptions
from carrel.policy.role import Role, claim_of, texts_of
from carrel.policy.server_view import FindTarget, ServerView

if TYPE_CHECKING:
    from carrel.catalog.rules import RuleView
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import Principal

__all__ = ["CLAIM", "EVERYBODY", "Policy", "PolicyRule"]

#: Name in a rule for all callers.
EVERYBODY = "*"
#: What names in braces begin with.
CLAIM = "claim."
#: Name for all servers that no rule names.
ELSEWHERE = ""
#: How many sets of roles, and views of a gateway, are kept compiled.
KEPT = 1024


class PolicyRule(Rule, frozen=True, kw_only=True):
    """Access rule of some roles, of a gateway for one ``server``. ``text`` is the rule in words, ``where`` its line."""

    roles: frozenset[str]
    server: str | None = None
    text: str = ""
    where: str = ""


class Policy:
    """Roles and rules. ``local`` tells whether callers without a principal are local: not over HTTP.

    Raises:
        ConfigError: a pattern is invalid.
    """

    def __init__(self, roles: Iterable[Role] = (), rules: Iterable[PolicyRule] = (), *, local: bool = False) -> None:
        self.roles = {role.name: role for role in roles}
        self.rules = tuple(rules)
        self.local = local
        self.find_target: FindTarget | None = None
        """Finds the targets of a gateway."""
        self.engine: AuthZenOptions | None = None
        """Policy engine that decides instead of rules."""
        self.servers = tuple(sorted({rule.server for rule in self.rules if rule.server is not None}))
        """Servers that rules are for."""
        self.claims = tuple(name.removeprefix(CLAIM) for name in Rules(self.rules).names)
        """Claims that patterns have in braces."""
        self._local_roles = frozenset(role.name for role in self.roles.values() if role.local)
        self._known: WeakKeyDictionary[Principal, RuleView | ServerView] = WeakKeyDictionary()
        self._unauthenticated: dict[bool, RuleView | ServerView] = {}
        """View of callers without a principal, by ``local``."""
        self._everybody = all(rule.roles == {EVERYBODY} for rule in self.rules)
        self._rules = lru_cache(KEPT)(self._compile)
        self._views = lru_cache(KEPT)(self._view)

    def view(self, principal: Principal | None) -> RuleView | ServerView:
        """Return the view of a caller."""
        if principal is None:
            found = self._unauthenticated.get(self.local)
            if found is None:
                found = self._unauthenticated[self.local] = self.view_of(self.roles_of(None))
            return found
        found = self._known.get(principal)
        if found is None:
            values = {name: texts_of(claim_of(principal, name)) for name in self.claims}
            found = self._known[principal] = self.view_of(self.roles_of(principal), values)
        return found

    def roles_of(self, principal: Principal | None) -> frozenset[str]:
        """Return the names of the roles that a caller has."""
        if principal is None:
            return self._local_roles if self.local else frozenset()
        return frozenset(name for name, role in self.roles.items() if role.includes(principal))

    def view_of(
        self, roles: frozenset[str], claims: Mapping[str, tuple[str, ...]] | None = None
    ) -> RuleView | ServerView:
        """Return the view of callers with some roles and claims."""
        return self._views(roles, tuple((claims or {}).get(name, ()) for name in self.claims))

    def explain(self, view: RuleView | ServerView, verb: Verb, target: str) -> PolicyRule | None:
        """Return the rule that decides about a target: a rule that denies, else a rule that allows, else None."""
        found = view.explain(verb, target)
        return found if isinstance(found, PolicyRule) else None

    def _view(self, roles: frozenset[str], claims: tuple[tuple[str, ...], ...]) -> RuleView | ServerView:
        values = {CLAIM + name: held for name, held in zip(self.claims, claims, strict=True)}
        elsewhere = self._rules(roles, ELSEWHERE).view(values)
        if not self.servers and self.find_target is None:
            return elsewhere
        views = {server: self._rules(roles, server).view(values) for server in self.servers}
        return ServerView(views, elsewhere, self._rules(roles, None).view(values), self)

    def _compile(self, roles: frozenset[str], server: str | None) -> Rules:
        """Compile the rules of some roles for the targets of a server, or for targets whose server is not known.

        Rules that deny for any server hold for the latter.
        """
        held = roles | {EVERYBODY}
        rules = [
            rule
            for rule in self.rules
            if not rule.roles.isdisjoint(held)
            and (rule.server in (None, server) or (server is None and not rule.allow))
        ]
        rows = [(rule.pattern, sorted(rule.verbs), rule.allow) for rule in rules]
        digest = blake2b(msgspec.json.encode(rows), digest_size=12).hexdigest()
        return Rules(rules, key=f"policy {digest} ", everybody=self._everybody)
