"""Random policies: callers of a server see what a plain oracle allows, and nothing else; rules that never decide."""

from __future__ import annotations

import asyncio
import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel import Client, Server
from carrel.catalog.rules import READING
from carrel.errors import MCPError
from carrel.policy import Policy, PolicyRule, Role
from carrel.policy.decision import decide
from carrel.policy.shadowing import shadowed
from carrel.policy.unmatched import unmatched
from carrel.protocol.principal import Principal, View
from support.examples import examples

URIS = [f"notes://{team}/{name}" for team in ("blue", "green") for name in ("1", "draft-1", "sub/2")]
TOOLS, PROMPTS = ["search_notes", "search_tasks", "delete"], ["greet", "search_help"]
URI_PATTERNS = [
    "**",
    "notes://blue/**",
    "notes://*/draft-*",
    "notes://{claim.team}/**",
    "notes://green/1",
    "notes://*/*",
    "notes://**/2",
    "**/draft-*",
]
NAME_PATTERNS = ["*", "search_*", "delete", "*e*", "{claim.team}"]
ROLES = ("viewer", "editor")

uri_rules = st.tuples(st.sampled_from(URI_PATTERNS), st.just("resources"))
name_rules = st.tuples(st.sampled_from(NAME_PATTERNS), st.sampled_from(["tools", "prompts"]))
RULES = st.lists(
    st.tuples(st.sampled_from([*ROLES, "*"]), st.booleans(), uri_rules | name_rules), min_size=1, max_size=7
)
CALLERS = st.tuples(st.frozensets(st.sampled_from(ROLES)), st.sampled_from([(), ("blue",), ("blue", "green")]))


def expected(rules: list, held: frozenset[str], teams: tuple[str, ...], kind: str, target: str) -> bool:
    """Return whether a policy allows a target: the oracle, which takes rules one by one."""
    allowed = False
    for role, allow, (pattern, where) in rules:
        if where != kind or role not in {*held, "*"}:
            continue
        fillings = teams or (() if allow else ("*",)) if "{" in pattern else ("",)
        for team in fillings:
            filled = pattern.replace("{claim.team}", team)
            if kind == "resources":
                regex = re.escape(filled).replace(r"/\*\*/", "/(.*/)?").replace(r"/\*\*", "(/.*)?")
                regex = regex.replace(r"\*\*/", "(.*/)?") if regex.startswith(r"\*\*/") else regex
                regex = regex.replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
            else:
                regex = re.escape(filled).replace(r"\*", ".*")
            if re.fullmatch(regex, target):
                if not allow:
                    return False
                allowed = True
    return allowed


def policy_of(rules: list) -> Policy:
    verbs = {"resources": READING, "tools": frozenset({"call"}), "prompts": frozenset({"get"})}
    made = [PolicyRule(pattern, verbs[kind], allow, roles=frozenset([role])) for role, allow, (pattern, kind) in rules]
    return Policy([Role(name=role, claims={"roles": [role]}) for role in ROLES], made)


class As:
    """Gate that takes each caller for one principal."""

    def __init__(self, policy: Policy, principal: Principal) -> None:
        self._view = policy.view(principal)

    def view(self, _: Principal | None) -> View:
        return self._view


def build() -> Server:
    app = Server("notes")
    for uri in URIS:
        app.resources.add(uri, uri)
    for name in TOOLS:
        app.tools.add(lambda name=name: name, name=name)
    for name in PROMPTS:
        app.prompts.add(lambda name=name: name, name=name)
    return app


async def seen(client: Client) -> dict[str, set[str]]:
    found = {
        "resources": {each.uri for each in await client.list_resources()},
        "tools": {each.name for each in await client.list_tools()},
        "prompts": {each.name for each in await client.list_prompts()},
    }
    for kind, targets, use in (
        ("resources", URIS, client.read_resource),
        ("tools", TOOLS, client.call_tool),
        ("prompts", PROMPTS, client.get_prompt),
    ):
        used, denied = set(), dict[str, str]()
        for target in targets:
            try:
                result = await use(target)
            except MCPError as error:
                denied[target] = str(error)
            else:
                assert not getattr(result, "is_error", False)
                used.add(target)
        for target, message in denied.items():
            assert message == await missing(use, target)
        assert used == found[kind]
    return found


async def missing(use, target: str) -> str:
    """Return the error for a target that does not exist, with the name of the denied one."""
    with pytest.raises(MCPError) as caught:
        await use(f"{target}x")
    return str(caught.value).replace(f"{target}x", target)


@settings(max_examples=examples(25), deadline=None)
@given(RULES, CALLERS)
def test_callers_see_exactly_what_the_policy_allows(
    rules: list, caller: tuple[frozenset[str], tuple[str, ...]]
) -> None:
    held, teams = caller
    policy = policy_of(rules)
    principal = Principal(subject="ann", issuer="i", claims={"roles": list(held), "team": list(teams)})
    targets = {"resources": URIS, "tools": TOOLS, "prompts": PROMPTS}
    allowed = {kind: {one for one in some if expected(rules, held, teams, kind, one)} for kind, some in targets.items()}
    app = build()
    app.gate = As(policy, principal)

    async def check() -> None:
        async with Client(app) as client:
            assert await seen(client) == allowed

    asyncio.run(check())
    view = policy.view(principal)
    for kind, verb in (("resources", "read"), ("tools", "call"), ("prompts", "get")):
        for target in targets[kind]:
            decision = decide(policy, view, verb, target)
            assert decision.allowed is (target in allowed[kind])
            assert decision.rule is None or decision.rule.allow is decision.allowed


@settings(max_examples=examples(30), deadline=None)
@given(RULES)
def test_without_a_rule_that_never_decides_a_policy_is_the_same(rules: list) -> None:
    policy = policy_of(rules)
    never = [rule for rule, _ in shadowed(policy)]
    if not never:
        return
    index = next(n for n, rule in enumerate(policy.rules) if rule is never[0])
    fewer = policy_of(rules[:index] + rules[index + 1 :])
    for held, teams in product([frozenset(), *(frozenset([role]) for role in ROLES)], [(), ("blue",)]):
        one, other = (each.view_of(held, {"team": teams}) for each in (policy, fewer))
        for verb, targets in (("read", URIS), ("call", TOOLS), ("get", PROMPTS)):
            assert [one.allows(verb, each) for each in targets] == [other.allows(verb, each) for each in targets]


def rule(pattern: str, *, role: str = "*", allow: bool = True, kind: str = "resources") -> tuple:
    return role, allow, (pattern, kind)


@pytest.mark.parametrize(
    ("rules", "expected_pairs"),
    [
        ([rule("notes://x/1"), rule("notes://**", allow=False)], [(0, 1)]),
        ([rule("notes://**"), rule("notes://x/1", allow=False)], []),
        ([rule("notes://x/**"), rule("notes://x/*/2", role="viewer")], [(1, 0)]),
        ([rule("notes://x/**", role="viewer"), rule("notes://x/*/2")], []),
        ([rule("a_*", kind="tools"), rule("a_b", kind="tools")], [(1, 0)]),
        ([rule("a_*", kind="tools"), rule("a_b", kind="prompts")], []),
        ([rule("a://**"), rule("a://**")], [(1, 0)]),
        ([rule("a://*/**"), rule("a://*", allow=False)], []),
        ([rule("a://{claim.team}/1"), rule("a://*/1", allow=False)], [(0, 1)]),
        ([rule("a://x/1"), rule("a://{claim.team}/1", allow=False)], []),
    ],
)
def test_rules_that_never_decide_are_found(rules: list, expected_pairs: list[tuple[int, int]]) -> None:
    policy = policy_of(rules)
    place = {id(each): index for index, each in enumerate(policy.rules)}
    assert [(place[id(one)], place[id(other)]) for one, other in shadowed(policy)] == expected_pairs


def test_rules_that_match_nothing_are_found() -> None:
    rules = [rule("notes://bleu/**"), rule("notes://{claim.team}/1"), rule("serch_*", kind="tools"), rule("book://a/b")]
    policy = policy_of([*rules, rule("film://a")])
    targets = [*(("read", uri) for uri in URIS), *(("call", name) for name in TOOLS)]
    found = unmatched(policy, targets, ["book://{author}/{title}", "notes://{team}/{name}", "{not"])
    assert [each.pattern for each in found] == ["notes://bleu/**", "serch_*", "film://a"]
