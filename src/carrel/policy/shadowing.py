"""Rules that never decide: every caller and target of theirs is decided by another rule.

A pattern is within another one if the other matches its examples, in which ``*``, ``**`` and braces are texts that no
pattern contains. Patterns have nothing but texts and wildcards, so what matches the examples matches all targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from carrel.catalog.access import NAME_VERBS
from carrel.catalog.rules import Rules
from carrel.policy.policy import EVERYBODY, Policy, PolicyRule

__all__ = ["shadowed"]

#: Text in place of ``*``: URIs may have it, and hardly any pattern has.
SOME = "~some~"
#: Texts in place of ``**``: no segment, one, and several.
DEEP = ("", SOME, f"{SOME}/{SOME}/{SOME}")


def shadowed(policy: Policy) -> Iterator[tuple[PolicyRule, PolicyRule]]:
    """Yield the rules that never decide, each with the rule that decides in its place."""
    compiled = [Rules([msgspec.structs.replace(rule, allow=True)]) for rule in policy.rules]
    for index, rule in enumerate(policy.rules):
        for other_index, other in enumerate(policy.rules):
            if other is rule or not rule.verbs <= other.verbs or not _is_wider(other, rule):
                continue
            if rule.allow == other.allow:
                same = _is_within(rule, compiled[index], compiled[other_index]) and (
                    other_index < index or not _is_within(other, compiled[other_index], compiled[index])
                )
            else:
                same = not other.allow and _is_within(rule, compiled[index], compiled[other_index])
            if same:
                yield rule, other
                break


def _is_wider(other: PolicyRule, rule: PolicyRule) -> bool:
    """Return whether another rule is for all roles and servers that a rule is for."""
    return (EVERYBODY in other.roles or rule.roles <= other.roles) and other.server in (None, rule.server)


def _is_within(rule: PolicyRule, own: Rules, other: Rules) -> bool:
    """Return whether another rule's pattern matches all targets of a rule. ``own`` and ``other`` are compiled."""
    values = {str(name): f"{SOME}{number}" for number, name in enumerate(own.names)}
    if not set(other.names) <= set(values):
        return False  # the other one needs a value that callers may lack
    view = other.view(values)
    verb = min(rule.verbs)
    examples = _examples(rule.pattern, values, uris=verb not in NAME_VERBS)
    return all(view.allows(verb, example) for example in examples)


def _examples(pattern: str, values: dict[str, str], *, uris: bool) -> Iterator[str]:
    """Yield targets that a pattern matches."""
    plain = re.sub(r"\{([^{}]*)\}", lambda found: values[found[1]], pattern)
    for deep in DEEP if uris else (SOME,):
        text = plain.removesuffix("/**") if not deep else plain
        yield text.replace("**", deep).replace("*", SOME)
