"""Fuzz targets of policies: files with ``[access]`` and ``[limits]``, and patterns with keys to decide about."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

Target = Callable[[bytes], None]


def policies() -> Target:
    """Configuration files: a policy, or problems, each with file and line; decisions agree with explanations."""
    from carrel.cli.config.toml import read_file
    from carrel.errors import ConfigError
    from carrel.policy.decision import decide
    from carrel.policy.shadowing import shadowed
    from carrel.policy.unmatched import unmatched
    from carrel.protocol.principal import Principal

    file = Path(tempfile.mkdtemp(prefix="carrel-fuzz-")) / "carrel.toml"
    callers = (None, Principal(subject="ann", claims={"team": ["blue", 1], "deep": {"er": "x"}}))

    def run(data: bytes) -> None:
        file.write_bytes(data)
        try:
            found = read_file(str(file))
        except ConfigError:
            return
        for problem in found.problems:
            assert re.match(re.escape(str(file)) + r":\d+", problem), problem
        if found.policy is None:
            return
        list(shadowed(found.policy))
        list(unmatched(found.policy, [("read", "notes://blue/1"), ("call", "search")], ["notes://{team}/{name}"]))
        for caller in callers:
            view = found.policy.view(caller)
            for verb, target in (("read", "notes://blue/1"), ("call", "search"), ("subscribe", "a:%2F?q#f")):
                decision = decide(found.policy, view, verb, target)  # type: ignore[arg-type]
                assert not decision.allowed or (decision.rule is not None and decision.rule.allow)
                assert view.allows(verb, target) or not decision.allowed  # type: ignore[arg-type]

    return run


def patterns() -> Target:
    """Patterns: a ``ConfigError``, or decisions as a match of one pattern after another makes them, in linear time."""
    from carrel.catalog.rules import READING, Rule, Rules
    from carrel.catalog.segments import Segments
    from carrel.errors import ConfigError

    def run(data: bytes) -> None:
        *lines, keys = data.decode("utf-8", "replace").split("\n")
        rules = []
        for line in lines[:20]:
            rule = Rule(line[1:], READING, line[:1] != "-")
            try:
                Rules([rule])
            except ConfigError:
                continue
            rules.append(rule)
        values = {"team": ("blue", "a/b")}
        compiled = Rules(rules)
        view = compiled.view(values)

        def matches(rule: Rule, key: str) -> bool:
            trie = Segments(uris=True)
            for each in Rules([rule])._patterns["read"]:
                for tokens in each.filled(values):
                    trie.add(tokens)
            return trie.match(key)

        some = sorted({*keys.split(" "), *(rule.pattern for rule in rules), "", "a"})
        selected = view.selector("read")(some)
        for key in some:
            allowing = [rule for rule in rules if rule.allow and matches(rule, key)]
            denying = [rule for rule in rules if not rule.allow and matches(rule, key)]
            assert view.allows("read", key) is (bool(allowing) and not denying), (key, rules)
            assert (key in selected) is view.allows("read", key)
            assert not view.allows("read", key) or key in view.intervals("read")
            found = view.explain("read", key)
            assert found is None or found.allow is view.allows("read", key)

    return run


TARGETS: dict[str, Callable[[], Target]] = {"policies": policies, "patterns": patterns}

SEEDS = {
    "policies": [
        b"""
[access.roles]
viewer = { scope = "books:read" }
team = { groups = ["blue", "green"], "realm.roles" = 1 }
ci = { token = "ci" }
office = { certificate = "CN=*.example.org, O=Example" }
local = { local = true }
[[access.rules]]
role = ["viewer", "team"]
allow = "read"
resources = ["notes://{claim.team}/**", "notes://*/x*y"]
[[access.rules]]
role = "*"
deny = "all"
resources = "notes://*/draft-*"
[[access.rules]]
role = "ci"
allow = ["call", "get"]
tools = "search_*"
server = "shop"
[limits]
requests = "600/minute"
[[limits.rules]]
role = "viewer"
tools = "search_*"
requests = "30/minute"
burst = 5
bytes = "1.5MiB/hour"
per = "address"
""",
        b'[access.engine]\nurl = "https://pdp.example.com"\ntoken = "${env:A}"\ncache_seconds = 1\n',
    ],
    "patterns": [
        b"+notes://{team}/**\n-notes://*/draft-*\n+**/x*y\n+notes://a/**/b*\n"
        b"notes://blue/1 notes://a/b?q notes://z/draft-1#f",
        b"+**\n-a**\n+NOTES://A%7e/*\n-{team}\nnotes://a~/x notes://a//b a",
        b"+a://x*y*z*/**/**/q\n-a://x?q=*\na://xyz/q a://x?q=1 a://xyyz/1/2/q",
    ],
}
