"""Rules whose patterns match nothing that is shared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from carrel.catalog.access import NAME_VERBS, may_reach
from carrel.catalog.rules import Rules
from carrel.uri.template import UriTemplate, UriTemplateError

if TYPE_CHECKING:
    from carrel.policy.policy import Policy, PolicyRule
    from carrel.policy.server_view import Owner
    from carrel.protocol.methods import Verb

__all__ = ["unmatched"]

BRACES = re.compile(r"\{[^{}]*\}")


def unmatched(
    policy: Policy, targets: Iterable[tuple[Verb, str]], templates: Iterable[str], owner: Owner | None = None
) -> Iterator[PolicyRule]:
    """Yield the rules that match none of the targets: resources (``read``), tools (``call``) and prompts (``get``).

    A rule that matches URIs of a template counts as matched, unless the resources of the template are listed.
    """
    resources = [target for verb, target in targets if verb not in NAME_VERBS]
    names = [(verb, target) for verb, target in targets if verb in NAME_VERBS]
    unlisted = [
        template for template in map(_parsed, templates) if template and not any(map(template.match, resources))
    ]
    for rule in policy.rules:
        verb: Verb = "read" if not rule.verbs & NAME_VERBS else "call" if "call" in rule.verbs else "get"
        pattern = BRACES.sub("*", rule.pattern)
        plain = msgspec.structs.replace(rule, pattern=pattern, verbs=frozenset([verb]), allow=True)
        view = Rules([plain]).view()
        known = [target for each, target in names if each == verb] if verb in NAME_VERBS else resources
        if any(
            view.allows(verb, target) and (rule.server is None or owner is None or owner(verb, target) == rule.server)
            for target in known
        ):
            continue
        if verb in NAME_VERBS or not any(may_reach(view, "read", template) for template in unlisted):
            yield rule


def _parsed(template: str) -> UriTemplate | None:
    try:
        return UriTemplate(template)
    except UriTemplateError:
        return None
