"""Reading of ``[access]``: roles, rules, and problems with their lines."""

from __future__ import annotations

import tomllib

import pytest

from carrel.policy import Policy, read_policy
from carrel.policy.server_view import GatewayTarget
from carrel.protocol.principal import Principal

ROLES = """
[access.roles]
viewer = { scope = "books:read" }
team = { groups = ["blue", "green"] }
nested = { "realm_access.roles" = "editor", verified = true }
ci = { token = "ci" }
local = { local = true }
"""


def read(text: str) -> tuple[Policy, list[str]]:
    return read_policy(tomllib.loads(text).get("access"), lambda path: ".".join(map(str, path)))


def policy_of(rules: str) -> Policy:
    policy, problems = read(ROLES + rules)
    assert problems == []
    return policy


def caller(*scopes: str, subject: str = "ann", issuer: str = "https://id.example", **claims: object) -> Principal:
    return Principal(subject=subject, issuer=issuer, scopes=frozenset(scopes), claims=claims)


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        (caller("books:read", "more"), {"viewer"}),
        (caller("books"), set()),
        (caller(groups=["red", "green"]), {"team"}),
        (caller(groups="blue"), {"team"}),
        (caller(groups=[["blue"]]), set()),
        (caller(groups={"blue": 1}), set()),
        (caller(realm_access={"roles": ["editor"]}, verified=True), {"nested"}),
        (caller(realm_access={"roles": ["editor"]}, verified=1), set()),
        (caller(realm_access={"roles": ["editor"]}), set()),
        (Principal(subject="ci"), {"ci"}),
        (caller(subject="ci"), set()),  # the subject of an issuer, not a token of the file
        (Principal(subject="ann"), set()),
    ],
)
def test_a_caller_has_the_roles_whose_conditions_all_hold(principal: Principal, expected: set[str]) -> None:
    assert policy_of("").roles_of(principal) == expected


def test_a_caller_without_a_principal_is_local_where_that_is_said() -> None:
    policy = policy_of("")
    assert policy.roles_of(None) == set()
    policy.local = True
    assert policy.roles_of(None) == {"local"}


def test_rules_are_for_their_roles_and_a_rule_that_denies_overrides() -> None:
    policy = policy_of("""
        [[access.rules]]
        role = "team"
        allow = "read"
        resources = "notes://{claim.groups}/**"
        [[access.rules]]
        role = "*"
        deny = "all"
        resources = "notes://*/draft-*"
        [[access.rules]]
        role = ["viewer", "team"]
        allow = "use"
        tools = ["search_*", "now"]
        prompts = "*"
    """)
    team, viewer = policy.view(caller(groups=["blue", "red"])), policy.view(caller("books:read"))
    assert [team.allows("read", f"notes://{name}") for name in ("blue/1", "red/1", "green/1", "blue/draft-1")] == [
        *(True, True, False, False)
    ]
    assert [viewer.allows("call", name) for name in ("search_x", "now", "other")] == [True, True, False]
    assert viewer.allows("get", "anything")
    assert not viewer.allows("read", "notes://blue/1")
    assert not policy.view(None).allows("get", "anything")


def test_views_of_different_rules_have_different_keys_and_equal_rules_share_one() -> None:
    rule = '[[access.rules]]\nrole = "{}"\nallow = "read"\nresources = "{}"\n'
    policy = policy_of(rule.format("viewer", "a:**") + rule.format("team", "b:**"))
    views = [policy.view(each) for each in (caller("books:read"), caller(groups="blue"), None)]
    assert len({view.key for view in views}) == 3
    assert not any(view.everybody for view in views)
    assert policy.view(caller("books:read", subject="bob")).key == views[0].key
    changed = policy_of(rule.format("viewer", "c:**") + rule.format("team", "b:**"))
    assert changed.view(caller("books:read")).key != views[0].key
    assert policy_of(rule.format("*", "a:**")).view(None).everybody


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ('role = "vewer"\nallow = "read"', "access.rules.0.role: there is no role 'vewer'; did you mean 'viewer'?"),
        ('role = "viewer"\nallow = "raed"', "there is no verb 'raed'; did you mean 'read'?"),
        ('role = "viewer"', "needs either allow or deny"),
        ('role = "viewer"\nallow = "read"\ndeny = "read"', "needs either allow or deny"),
        ('allow = "read"', "needs a role"),
        ('role = "viewer"\nallow = "read"\ntools = "x"', "says nothing about tools"),
        ('role = "viewer"\nallow = "read"\nresource = "x"', "did you mean 'resources'?"),
        ('role = "viewer"\nallow = 1', "expected a text, or a list of texts"),
        ('role = "viewer"\nallow = "read"\nresources = "a://x**/b"', "** stands for whole segments"),
        ('role = "viewer"\nallow = "read"\nresources = "a://{team}"', "such as {claim.team}"),
        ('role = ["ci", "local"]\nallow = "read"\nresources = "a://{claim.team}"', "has only {claim.sub}"),
    ],
)
def test_a_problem_of_a_rule_has_its_line(rules: str, problem: str) -> None:
    policy, problems = read(f"{ROLES}[[access.rules]]\n{rules}\n")
    assert len(problems) == 1
    assert problem in problems[0]
    assert problems[0].startswith("access.rules.0")
    assert policy.rules == ()


@pytest.mark.parametrize(
    ("role", "problem"),
    [
        ("x = {}", "access.roles.x: role x: expected conditions"),
        ('x = "y"', "expected conditions"),
        ('"*" = { scope = "x" }', "cannot be named *"),
        ("x = { local = false }", "local can only be true"),
        ("x = { token = 1 }", "token is one name in the file"),
        ("x = { groups = [] }", "groups is a text, a number, true, false, or a list"),
        ("x = { groups = [1.5] }", "groups is a text"),
        ('x = { scope = " " }', "scope is a text"),
        ('x = { local = true, scope = "a" }', "exclude each other"),
        ('x = { token = "a", scope = "a" }', "exclude each other"),
    ],
)
def test_a_problem_of_a_role_has_its_line(role: str, problem: str) -> None:
    _, problems = read(f"[access.roles]\n{role}\n")
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize("text", ["access = 1", "[access]\nroles = 1", "[access]\nrules = 1", "[access]\nrole = 1"])
def test_other_shapes_are_problems(text: str) -> None:
    assert len(read(text)[1]) == 1


def test_a_rule_without_targets_is_for_everything_that_its_verbs_are_for() -> None:
    policy = policy_of('[[access.rules]]\nrole = "viewer"\nallow = "all"\n')
    view = policy.view(caller("books:read"))
    assert all(view.allows(verb, "x:y") for verb in ("read", "list", "subscribe", "call", "get"))


def test_a_rule_of_a_server_is_for_its_targets_and_unknown_ones_get_the_rules_that_deny() -> None:
    policy = policy_of("""
        [[access.rules]]
        role = "*"
        allow = "all"
        [[access.rules]]
        role = "*"
        deny = "use"
        server = "shop"
        [[access.rules]]
        role = "viewer"
        allow = "read"
        server = "docs"
    """)
    servers = {"buy": "shop", "look": "docs", "use": "other", "own": ""}
    policy.find_target = lambda verb, target: GatewayTarget(servers[target], target) if target in servers else None
    view = policy.view(caller("books:read"))
    calls = [view.allows("call", name) for name in ("buy", "look", "use", "own", "unknown")]
    assert calls == [False, True, True, True, False]
    assert policy.explain(view, "call", "buy").server == "shop"
    assert view.intervals("call").whole
    assert view.reaches("read", "x:y", "x:")
    assert not view.hides  # all resources are visible
    policy.find_target = None
    assert not view.allows("call", "look")


def test_a_rule_that_denies_holds_for_every_spelling_of_a_target() -> None:
    policy = policy_of("""
        [[access.rules]]
        role = "*"
        allow = "use"
        [[access.rules]]
        role = "*"
        deny = "use"
        tools = ["admin_*", "two_secret"]
    """)

    def find_target(verb: str, target: str) -> GatewayTarget | None:
        own = target.removeprefix("one_")
        return GatewayTarget("one", own, (own, f"one_{own}"))

    policy.find_target = find_target
    view = policy.view(None)
    assert [view.allows("call", name) for name in ("find", "one_find", "admin_x", "one_admin_x")] == [
        *(True, True, False, False)
    ]
    assert policy.explain(view, "call", "one_admin_x").pattern == "admin_*"
    # another server has the name too: it is listed with its prefix
    policy.find_target = lambda verb, target: GatewayTarget("two", f"two_{target}", (target, f"two_{target}"))
    assert [view.allows("call", name) for name in ("admin_x", "secret", "find")] == [False, False, True]


def test_values_of_claims_that_make_too_many_patterns_allow_nothing() -> None:
    policy = policy_of("""
        [[access.rules]]
        role = "*"
        allow = "read"
        resources = "a://{claim.x}/{claim.y}"
        [[access.rules]]
        role = "*"
        deny = "use"
        tools = "{claim.x}_{claim.y}"
        [[access.rules]]
        role = "*"
        allow = "use"
    """)
    many = [str(number) for number in range(150)]
    view = policy.view(caller(x=many, y=many))
    assert not view.allows("read", "a://1/1")
    assert not view.allows("call", "1_1")
    assert not policy.view(caller(x=["\ud800"], y=["1"])).allows("read", "a://\ud800/1")
