"""Rules whose patterns match nothing that is shared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from carrel.catalog.access import NAME_VERBS, may_reach
from carrel.catalog.rules import Rules
from carrel.policy.reading import ALL
from carrel.uri.template import UriTemplate, UriTemplateError

if TYPE_CHECKING:
    from carrel.policy.policy import Policy, PolicyRule
    from carrel.policy.server_view import FindTarget
    from carrel.protocol.methods import Verb

__all__ = ["unmatched"]

BRACES = re.compile(r"\{[^{}]*\}")


def unmatched(
    policy: Policy, targets: Iterable[tuple[Verb, str]], templates: Iterable[str], find: FindTarget | None = None
) -> Iterator[PolicyRule]:
    """Yield the rules that match none of the targets: resources (``read``), tools (``call``) and prompts (``get``).

    A rule that matches URIs of a template counts as matched, unless the resources of the template are listed, or the
    rule begins with a wildcard. A rule for everything counts as matched if its table matches anything.
    """
    known = [*targets]
    resources = [target for verb, target in known if verb == "read"]
    unlisted = [
        template for template in map(_parsed, templates) if template and not any(map(template.match, resources))
    ]
    idle = [rule for rule in policy.rules if not _matches(rule, known, unlisted, find)]
    used = {rule.where for rule in policy.rules if rule not in idle}
    for rule in idle:
        if rule.pattern != ALL or rule.where not in used:
            yield rule


def _matches(
    rule: PolicyRule, targets: Iterable[tuple[Verb, str]], templates: Iterable[UriTemplate], find: FindTarget | None
) -> bool:
    verb: Verb = "read" if not rule.verbs & NAME_VERBS else "call" if "call" in rule.verbs else "get"
    pattern = BRACES.sub("*", rule.pattern)
    view = Rules([msgspec.structs.replace(rule, pattern=pattern, verbs=frozenset([verb]), allow=True)]).view()
    for each, target in targets:
        found = None if each != verb or find is None else find(verb, target)
        spellings = {target} if found is None else {target, *found.others}
        is_meant = each == verb and (rule.server is None or found is None or found.server == rule.server)
        if is_meant and any(view.allows(verb, one) for one in spellings):
            return True
    return verb == "read" and pattern[0] != "*" and any(may_reach(view, "read", template) for template in templates)


def _parsed(template: str) -> UriTemplate | None:
    try:
        return UriTemplate(template)
    except UriTemplateError:
        return None
