"""Reader of ``[access]``: roles and rules from a TOML table, with the line of each problem.

[access.roles]
viewer = { scope = "books:read" }

[[access.rules]]
role = "viewer"
allow = "read"
resources = "notes://{claim.team}/**"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, get_args

from msgspec import ValidationError, convert

from carrel.catalog.rules import READING, Rules
from carrel.errors import ConfigError
from carrel.near_names import near
from carrel.policy.authzen_options import AuthZenOptions
from carrel.policy.certificate_pattern import ATTRIBUTES, CertificatePattern
from carrel.policy.policy import CLAIM, EVERYBODY, Policy, PolicyRule
from carrel.policy.role import ClaimValue, Role
from carrel.protocol.methods import Verb

__all__ = ["ALL", "GROUPS", "Where", "read_policy"]

Where: TypeAlias = Callable[[tuple[str | int, ...]], str]
"""Returns the file and line of a path in the document."""

VERBS: frozenset[Verb] = frozenset(get_args(Verb))
#: Names of several verbs. The verb ``read`` alone would be of no use: a resource that is read is also listed.
GROUPS: dict[str, frozenset[Verb]] = {"read": READING, "use": VERBS - READING, "all": VERBS}
#: Keys of a rule that name targets, with the verbs for them.
TARGETS: dict[str, frozenset[Verb]] = {
    "resources": READING,
    "tools": frozenset({"call"}),
    "prompts": frozenset({"get"}),
}
RULE_KEYS = ("role", "allow", "deny", *TARGETS, "server")
#: Pattern of all targets.
ALL = "**"


def read_policy(table: object, where: Where) -> tuple[Policy, list[str]]:
    """Return the policy of an ``[access]`` table, and its problems, each with file and line.

    Rules with a problem are left out of the policy.
    """
    reader = _PolicyReader(where)
    reader.read(table)
    policy = Policy(reader.roles.values(), reader.rules)
    policy.engine = reader.engine
    return policy, reader.problems


class _PolicyReader:
    """Reader of one table. Collects roles, rules and problems."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self.roles: dict[str, Role] = {}
        self.rules: list[PolicyRule] = []
        self.engine: AuthZenOptions | None = None
        self.problems: list[str] = []

    def read(self, table: object) -> None:
        """Read the table."""
        if not isinstance(table, dict):
            self._problem(("access",), "access is a section: write [access.roles] and [[access.rules]]")
            return
        for key, value in table.items():
            if key == "roles":
                self._roles(value)
            elif key == "engine":
                self._engine(("access", key), value)
            elif key != "rules":
                known = ("roles", "rules", "engine")
                self._problem(("access", key), f"[access] {key}: there is no such setting{near(key, known)}")
        rules = table.get("rules", [])
        if "engine" in table and rules:
            self._problem(("access", "rules"), "[access.engine] decides instead of rules: write one of them")
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            self._problem(("access", "rules"), "rules are tables: write [[access.rules]] before each")
            return
        for index, rule in enumerate(rules):
            try:
                self.rules += self._rule(("access", "rules", index), rule)
            except ConfigError as error:
                self.problems.append(str(error))

    def _problem(self, path: tuple[str | int, ...], text: str) -> None:
        self.problems.append(f"{self._where(path)}: {text}")

    def _engine(self, path: tuple[str | int, ...], table: object) -> None:
        try:
            self.engine = convert(table, AuthZenOptions)
        except ValidationError as error:
            self._problem(path, f'[access.engine]: {error}; write url = "https://…", token, cache_seconds, timeout')
            return
        if self.engine.token and not self.engine.token.startswith("${"):
            self._problem((*path, "token"), '[access.engine] token: write "${env:NAME}" or "${file:PATH}"')

    def _roles(self, table: object) -> None:
        if not isinstance(table, dict):
            self._problem(("access", "roles"), 'roles are a table: [access.roles], then NAME = { scope = "…" }')
            return
        for name, conditions in table.items():
            path = ("access", "roles", name)
            if name == EVERYBODY:
                self._problem(path, f"a role cannot be named {EVERYBODY}, which in rules is everybody")
            elif not isinstance(conditions, dict) or not conditions:
                self._problem(path, f'role {name}: expected conditions, such as {{ scope = "books:read" }}')
            else:
                self._role(path, name, conditions)

    def _role(self, path: tuple[str, ...], name: str, conditions: dict[str, Any]) -> None:
        token, local = conditions.get("token"), conditions.get("local", False)
        claims: dict[str, tuple[ClaimValue, ...]] = {}
        certificate: list[CertificatePattern] = []
        for claim, value in conditions.items():
            values = value if isinstance(value, list) else [value]
            if claim == "token" and not isinstance(value, str):
                self._problem((*path, claim), f"role {name}: token is one name in the file of tokens, not a list")
            elif claim == "local" and value is not True:
                self._problem((*path, claim), f"role {name}: local can only be true")
            elif claim == "certificate":
                try:
                    certificate = [CertificatePattern(text) for text in self._texts((*path, claim), value)]
                except ConfigError as error:
                    known = str(error).startswith(self._where((*path, claim)))
                    self.problems.append(str(error)) if known else self._problem(
                        (*path, claim), f"role {name}: {error}"
                    )
            elif not values or not all(
                isinstance(one, int) or (isinstance(one, str) and one.strip()) for one in values
            ):
                self._problem(
                    (*path, claim), f"role {name}: {claim} is a text, a number, true, false, or a list of them"
                )
            elif claim not in ("token", "local"):
                claims[claim] = tuple(values)
        if len([one for one in (token, local, certificate, claims) if one]) > 1:
            self._problem(
                path,
                f"role {name}: token, certificate, local and claims exclude each other, as no caller has two of them",
            )
        self.roles[name] = Role(
            name=name,
            claims=claims,
            token=token if isinstance(token, str) else None,
            certificate=certificate,
            local=local is True,
            where=self._where(path),
        )

    def _certificate(self, path: tuple[str, ...], text: str) -> CertificatePattern:
        try:
            return CertificatePattern(text)
        except ConfigError as error:
            raise self._error(path, str(error)) from None

    def _rule(self, path: tuple[str | int, ...], table: dict[str, Any]) -> Iterator[PolicyRule]:
        """Yield the rules of a table: one for each pattern.

        Raises:
            ConfigError: the table has a problem.
        """
        for key in table:
            if key not in RULE_KEYS:
                raise self._error((*path, key), f"{key}: a rule has no such setting{near(key, RULE_KEYS)}")
        effects = [key for key in ("allow", "deny") if key in table]
        if len(effects) != 1:
            raise self._error(path, 'a rule needs either allow or deny, for example allow = "read"')
        [effect] = effects
        roles = self._roles_of(path, table)
        verbs = self._verbs((*path, effect), table[effect])
        given = [key for key in TARGETS if key in table]
        servers = self._texts((*path, "server"), table["server"]) if "server" in table else [None]
        text = f"{effect} {' '.join(self._texts((*path, effect), table[effect]))}"
        for key in given or TARGETS:
            fitting = verbs & TARGETS[key]
            if not fitting:
                if given:
                    raise self._error((*path, key), f"{effect} {table[effect]!r} says nothing about {key}")
                continue
            for index, pattern in enumerate(self._texts((*path, key), table[key]) if given else [ALL]):
                at = (*path, key, index) if given and isinstance(table[key], list) else (*path, key) if given else path
                for server in servers:
                    rule = PolicyRule(
                        pattern,
                        fitting,
                        effect == "allow",
                        roles=frozenset(roles),
                        server=server,
                        text=f"{text} {key if pattern == ALL else f'{key} {pattern}'}"
                        f"{'' if server is None else f' of {server}'} for {', '.join(roles)}",
                        where=self._where(path),
                    )
                    self._check(at, rule)
                    yield rule

    def _check(self, path: tuple[str | int, ...], rule: PolicyRule) -> None:
        """Check the pattern of a rule, and the names in its braces.

        Raises:
            ConfigError: the pattern is invalid, or no role of the rule can have the claim.
        """
        try:
            names = Rules([rule]).names
        except ConfigError as error:
            raise self._error(path, str(error)) from None
        for name in names:
            if not name.startswith(CLAIM) or name == CLAIM:
                raise self._error(path, f"{{{name}}}: in braces there is a claim of the caller, such as {{claim.team}}")
            held = [self.roles[role] for role in rule.roles if role != EVERYBODY]
            if held and not any(role.may_have(name.removeprefix(CLAIM)) for role in held):
                known = "no claims"
                if any(role.certificate for role in held):
                    known = f"only {{claim.sub}}, its subject, and its attributes, such as {{claim.{ATTRIBUTES[0]}}}"
                elif any(role.token for role in held):
                    known = "only {claim.sub}, its name"
                raise self._error(path, f"{{{name}}}: a caller with the role {', '.join(rule.roles)} has {known}")

    def _roles_of(self, path: tuple[str | int, ...], table: dict[str, Any]) -> list[str]:
        if "role" not in table:
            raise self._error(path, f'a rule needs a role, for example role = "{EVERYBODY}" for everybody')
        roles = self._texts((*path, "role"), table["role"])
        for role in roles:
            if role != EVERYBODY and role not in self.roles:
                raise self._error((*path, "role"), f"there is no role {role!r}{near(role, self.roles)}")
        return roles

    def _verbs(self, path: tuple[str | int, ...], value: object) -> frozenset[Verb]:
        found: frozenset[Verb] = frozenset()
        known: dict[str, frozenset[Verb]] = {verb: frozenset([verb]) for verb in sorted(VERBS)} | GROUPS
        for name in self._texts(path, value):
            if name not in known:
                raise self._error(path, f"there is no verb {name!r}{near(name, known)}")
            found |= known[name]
        return found

    def _texts(self, path: tuple[str | int, ...], value: object) -> list[str]:
        """Return a text as a list of one, or the texts of a list."""
        texts: Iterable[object] = value if isinstance(value, list) else [value]
        found = [text for text in texts if isinstance(text, str) and text]
        if not found or found != list(texts):
            raise self._error(path, f"{path[-1]}: expected a text, or a list of texts")
        return found

    def _error(self, path: tuple[str | int, ...], text: str) -> ConfigError:
        return ConfigError(f"{self._where(path)}: {text}")
