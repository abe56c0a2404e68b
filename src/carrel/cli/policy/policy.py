"""``carrel policy``: checks, explains, tests and compares the policy in ``[access]`` of a ``carrel.toml``."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from carrel.catalog.access import NAME_VERBS, may_reach
from carrel.cli.config.read import DEFAULT_FILE, Configuration, read_configuration
from carrel.cli.config.toml import read_file
from carrel.cli.options import Parser
from carrel.cli.policy.shared import open_shared
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import write_text
from carrel.errors import ConfigError
from carrel.host.config.read import read_file as read_servers
from carrel.near_names import near
from carrel.policy.decision import Decision, decide
from carrel.policy.policy import EVERYBODY, Policy
from carrel.policy.reading import VERBS
from carrel.policy.shadowing import shadowed
from carrel.policy.unmatched import unmatched
from carrel.redaction import without_secrets
from carrel.security.server.static_tokens import read_lines, words_of
from carrel.uri.parse import UriError, canonical, file_path, file_uri
from carrel.uri.template import UriTemplate

if TYPE_CHECKING:
    from carrel.protocol.methods import Verb

__all__ = ["parser", "run"]

SUMMARY = "Check the access policy in [access] of a carrel.toml, explain a decision, test it, or compare two policies."
EXAMPLES = """\
examples:
  carrel policy check                           problems: what is misspelt, and rules that never decide
  carrel policy explain --as viewer read notes://blue/1
  carrel policy explain --as viewer --claim team=blue call search_books
  carrel policy test expectations.txt           lines such as: viewer team=blue read notes://blue/1 allowed
  carrel policy diff old.toml carrel.toml       what becomes allowed and denied of everything that is shared

Exit codes: 0; 1 if check finds something, a test fails, or a policy differs; 2 after wrong use.
"""
OUTCOMES = {"allowed": True, "denied": False}
#: How many arguments each action takes.
ACTIONS = {"check": (0, ""), "explain": (2, "VERB TARGET"), "test": (1, "FILE"), "diff": (2, "OLD NEW")}


class PolicyCaller(NamedTuple):
    """Caller to decide about: its roles and claims."""

    roles: frozenset[str]
    claims: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        """The roles, or everybody."""
        return ", ".join(sorted(self.roles)) or "everybody"


def parser() -> Parser:
    """Return the argument parser of ``carrel policy``."""
    reader = Parser("policy", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("action", metavar="ACTION", choices=tuple(ACTIONS), help="check, explain, test or diff")
    reader.add_argument(
        "arguments", metavar="ARGUMENT", nargs="*", help="explain: VERB TARGET; test: FILE; diff: OLD NEW (files)"
    )
    reader.add_argument(
        "--config", metavar="FILE", default=DEFAULT_FILE, help="the file with the policy (default: ./carrel.toml)"
    )
    reader.add_argument(
        "--as",
        dest="roles",
        metavar="ROLE",
        action="append",
        default=[],
        help="explain, diff: a role of the caller; may be repeated (default: no role; diff: each role by itself)",
    )
    reader.add_argument(
        "--claim",
        dest="claims",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="explain, diff: a claim of the caller, for the names in braces; may be repeated",
    )
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel policy`` and return the exit code.

    Raises:
        ConfigError: wrong use, or an invalid file.
    """
    options = parser().parse_intermixed_args(arguments)
    count, usage = ACTIONS[options.action]
    if len(options.arguments) != count:
        raise ConfigError(f"usage: carrel policy {options.action} {usage}".rstrip())
    action = {"check": check, "explain": explain, "test": test, "diff": diff}[options.action]
    return asyncio.run(action(options))


async def check(options: argparse.Namespace) -> int:
    """Print the problems of a policy, each with file and line."""
    problems = list(read_file(options.config).problems)
    rules = 0
    if not problems:
        configuration = read(options.config)
        policy = policy_in(configuration)
        rules = len({rule.where for rule in policy.rules})
        never = {rule.where: f"{other.where} does ({rule.text})" for rule, other in shadowed(policy)}
        problems += unknown_tokens(policy, configuration)
        problems += [f"{where}: the rule never decides: {reason}" for where, reason in never.items()]
        async with open_shared(configuration) as shared:
            if shared.left_out:
                problems.append(
                    f"{options.config}: servers are left out, so it is unknown whether each rule matches something"
                )
            else:
                idle = unmatched(policy, await shared.targets(), await shared.templates(), shared.find_target)
                problems += [
                    f"{rule.where}: the rule matches nothing that is shared ({rule.text})"
                    for rule in idle
                    if rule.where not in never
                ]
    print_stderr(*(f"carrel: {problem}" for problem in problems))
    if not problems:
        write_text(f"{options.config}: {rules} {'rule' if rules == 1 else 'rules'}, no problems")
    return 1 if problems else 0


def unknown_tokens(policy: Policy, configuration: Configuration) -> Iterator[str]:
    """Yield a problem for each role of a token that is not in the file of tokens."""
    file = configuration.settings.auth.tokens
    if file is None:
        return
    names = {name for line in read_lines(Path(file)) for name in words_of(line)[1:2]}
    for role in policy.roles.values():
        if role.token is not None and role.token not in names:
            yield f"{role.where}: role {role.name}: {file} has no token {role.token!r}{near(role.token, names)}"


def missing_claims(policy: Policy, claims: Iterable[str]) -> None:
    """Print the claims that patterns have in braces, and that the caller does not have."""
    missing = [name for name in policy.claims if name not in set(claims)]
    if missing:
        named = ", ".join(f"{{claim.{name}}}" for name in missing)
        print_stderr(f"carrel: rules with {named} allow nothing: give --claim {missing[0]}=VALUE")


async def explain(options: argparse.Namespace) -> int:
    """Print the decision about one target, and about what else its URI may be."""
    verb, target = verb_of(options.arguments[0]), options.arguments[1]
    configuration = read(options.config)
    policy = policy_in(configuration)
    caller = caller_of(policy, options.roles, options.claims)
    missing_claims(policy, caller.claims)
    async with open_shared(configuration) as shared:
        policy.find_target = shared.find_target
        templates = await shared.templates() if verb not in NAME_VERBS else []
        view = policy.view_of(caller.roles, caller.claims)
        decision = decide(policy, view, verb, target)
        lines = [word(decision), f"  {decision}"]
        if decision.verb != verb or decision.checked != target:
            lines[-1] += f" ({decision.verb} {decision.checked})"
        behind = link_target(target) if verb not in NAME_VERBS else None
        if behind is not None:
            also = decide(policy, view, verb, behind)
            if decision.allowed and not also.allowed:
                lines = [word(also), f"  {also}"]
            lines.append(f"  it is a link to {behind}")
        for template in dict.fromkeys(templates):
            if "{?" not in template and UriTemplate(template).match(target) is not None:
                listed = may_reach(view, "list", UriTemplate(template))
                lines.append(f"its template {template} is {'listed' if listed else 'not listed'} for this caller")
    write_text("\n".join(lines))
    return 0


def link_target(uri: str) -> str | None:
    """Return the URI of the file that a URI leads to through symbolic links, or None without a link."""
    try:
        path = file_path(canonical(uri))
    except UriError:
        return None
    real = os.path.realpath(path)
    return file_uri(real) if real != path and Path(real).exists() else None


async def test(options: argparse.Namespace) -> int:
    """Compare the decisions with a table of expectations, and print the decisions that differ."""
    configuration = read(options.config)
    policy = policy_in(configuration)
    rows = list(expectations(policy, options.arguments[0]))
    failed = 0
    async with AsyncExitStack() as stack:
        if read_servers(Path(options.config), "carrel").servers:
            shared = await stack.enter_async_context(open_shared(configuration))
            policy.find_target = shared.find_target
        for where, caller, verb, target, expected in rows:
            decision = decide(policy, policy.view_of(caller.roles, caller.claims), verb, target)
            if decision.allowed != expected:
                failed += 1
                write_text(f"{where}: {verb} {target} for {caller}: {word(decision)}: {decision}")
    write_text(f"{len(rows)} expectations, {failed} failed")
    return 1 if failed else 0


def expectations(policy: Policy, file: str) -> Iterator[tuple[str, PolicyCaller, Verb, str, bool]]:
    """Yield the rows of a table: where it is, caller, verb, target and whether it is allowed.

    Raises:
        ConfigError: the file cannot be read, or a line is invalid.
    """
    try:
        lines = Path(file).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        ) from None
    for number, line in enumerate(lines, 1):
        words = line.split() if not line.lstrip().startswith("#") else []
        if not words:
            continue
        where = f"{file}:{number}"
        if len(words) < 4 or words[-1] not in OUTCOMES:
            raise ConfigError(f"{where}: expected ROLES [CLAIM=VALUE …] VERB TARGET, then allowed or denied")
        roles, *claims, verb, target, outcome = words
        try:
            caller = caller_of(policy, [] if roles == EVERYBODY else roles.split(","), claims)
            yield where, caller, verb_of(verb), target, OUTCOMES[outcome]
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None


async def diff(options: argparse.Namespace) -> int:
    """Print what another policy allows and denies of everything that is shared, for each role."""
    old, new = map(read, options.arguments)
    before, after = policy_in(old), policy_in(new)
    async with open_shared(new) as shared:
        before.find_target = after.find_target = shared.find_target
        targets = await shared.targets()
    differences = 0
    roles = sorted({*before.roles, *after.roles})
    callers = (
        [frozenset(options.roles)] if options.roles else [frozenset[str](), *(frozenset([role]) for role in roles)]
    )
    unknown = frozenset(options.roles) - set(roles)
    if unknown:
        raise ConfigError(f"there is no role {min(unknown)!r}{near(min(unknown), roles)}")
    claims = claims_of(options.claims)
    for policy in (before, after):
        missing_claims(policy, claims)
    for held in callers:
        views = [policy.view_of(held & set(policy.roles), claims) for policy in (before, after)]
        for verb, target in targets:
            one, other = (
                decide(policy, view, verb, target) for policy, view in zip((before, after), views, strict=True)
            )
            if one.allowed != other.allowed:
                differences += 1
                write_text(f"{PolicyCaller(held, claims)}: {verb} {target} becomes {word(other)}: {other}")
    write_text(f"{differences} differences in {len(targets)} resources, tools and prompts")
    return 1 if differences else 0


def word(decision: Decision) -> str:
    """Return ``allowed`` or ``denied``."""
    return "allowed" if decision.allowed else "denied"


def read(file: str) -> Configuration:
    """Return the settings of a file."""
    return read_configuration(argparse.Namespace(config=file), targeted=True)


def policy_in(configuration: Configuration) -> Policy:
    """Return the policy of a configuration.

    Raises:
        ConfigError: there is no policy.
    """
    if configuration.policy is None:
        raise ConfigError(f"{configuration.file} has no [access]: everything is allowed")
    if configuration.policy.engine is not None:
        url = without_secrets(configuration.policy.engine.url)
        raise ConfigError(f"{configuration.file} has no rules: the policy engine {url} of [access.engine] decides")
    return configuration.policy


def verb_of(text: str) -> Verb:
    """Return a verb.

    Raises:
        ConfigError: there is no such verb.
    """
    if text not in VERBS:
        raise ConfigError(f"there is no verb {text!r}{near(text, sorted(VERBS))}")
    return text


def caller_of(policy: Policy, roles: Iterable[str], claims: Iterable[str]) -> PolicyCaller:
    """Return a caller with roles and claims.

    Raises:
        ConfigError: there is no such role, or a claim has no value.
    """
    for role in roles:
        if role not in policy.roles:
            raise ConfigError(f"there is no role {role!r}{near(role, policy.roles)}")
    found = claims_of(claims)
    named = tuple(token for role in roles if (token := policy.roles[role].token) is not None)
    return PolicyCaller(frozenset(roles), {"sub": named, **found} if named else found)


def claims_of(claims: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return claims by name. A claim that is given several times has several values.

    Raises:
        ConfigError: a claim has no value.
    """
    found: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        name, equals, value = claim.partition("=")
        if not equals or not name:
            raise ConfigError(f"a claim is NAME=VALUE, not {claim!r}")
        found[name] = (*found.get(name, ()), value)
    return found
