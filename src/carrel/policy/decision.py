"""Decisions of a policy, with the rule of each: as the gate of a server decides, check by check."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from carrel.catalog.access import DOT_SEGMENT, NAME_VERBS
from carrel.uri.parse import canonical

if TYPE_CHECKING:
    from carrel.catalog.rules import RuleView
    from carrel.policy.policy import Policy, PolicyRule
    from carrel.policy.server_view import ServerView
    from carrel.protocol.methods import Verb

__all__ = ["Decision", "decide"]


class Decision(NamedTuple):
    """Decision about a verb on a target.

    ``rule`` is the deciding rule, None if no rule allows the target. ``checked`` is the target that it decided about,
    and ``verb`` its verb: a denied ``read`` denies all other verbs on a resource.
    """

    allowed: bool
    rule: PolicyRule | None
    verb: Verb
    checked: str
    reason: str = ""

    def __str__(self) -> str:
        """The decision in words, without ``allowed`` or ``denied``."""
        if self.reason:
            return self.reason
        return "no rule allows it" if self.rule is None else f"{self.rule.where}: {self.rule.text}"


def decide(policy: Policy, view: RuleView | ServerView, verb: Verb, target: str) -> Decision:
    """Return the decision about a verb on a resource (its URI), tool or prompt (its name)."""
    verbs: tuple[Verb, ...] = (verb,) if verb in NAME_VERBS or verb == "read" else (verb, "read")
    targets = [target] if verb in NAME_VERBS else list(dict.fromkeys([target, canonical(target)]))
    found: Decision | None = None
    for checked in targets:
        for each in verbs:
            decision = Decision(view.allows(each, checked), policy.explain(view, each, checked), each, checked)
            if not decision.allowed:
                return decision
            found = found or decision
    if verb not in NAME_VERBS and view.hides and DOT_SEGMENT.match(targets[-1]):
        return Decision(False, None, verb, target, "a URI with a segment . or .. does not exist for callers with rules")
    assert found is not None
    return found
