"""Views of a gate and of a principal together, and views of a provider under other names."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest

from carrel.catalog.access import UNRESTRICTED, Gate, RenamedView, find_view, may_reach
from carrel.catalog.rules import READING, Rule, Rules
from carrel.protocol.methods import Verb
from carrel.protocol.principal import Principal, View
from carrel.uri.intervals import Intervals
from carrel.uri.template import UriTemplate


class Listed(View):
    """View that allows the listed pairs of a verb and a target, and remembers what it was asked."""

    def __init__(self, *pairs: str, key: str = "listed", hides: bool = True, everybody: bool = False) -> None:
        self._pairs = {tuple(pair.split(" ", 1)) for pair in pairs}
        self.key, self.hides, self.everybody = key, hides, everybody
        self.permitted: Iterable[str] = ()
        self.different: Iterable[str] = ()

    def allows(self, verb: Verb, target: str) -> bool:
        return (verb, target) in self._pairs

    def permits(self, method: str) -> bool:
        return method in self.permitted

    def differs(self, uri: str) -> bool:
        return uri in self.different


class FixedGate(Gate):
    def __init__(self, view: View) -> None:
        self._view = view

    def view(self, principal: Principal | None) -> View:
        return self._view


def joined(gate: View, own: View | None = None) -> View:
    found = find_view(FixedGate(gate), None if own is None else Principal(subject="alice", view=own))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("allowed", "verb", "target", "expected"),
    [
        (["read a:x"], "read", "a:x", True),
        (["list a:x"], "list", "a:x", False),  # every verb requires read
        (["list a:x", "read a:x"], "list", "a:x", True),
        (["read a:x"], "list", "a:x", False),
        (["read A:x"], "read", "A:x", False),  # the canonical form counts too
        (["read a:x"], "read", "A:x", False),
        (["read A:x", "read a:x"], "read", "A:x", True),
        (["list A:x", "read A:x", "read a:x"], "list", "A:x", False),
        (["list A:x", "list a:x", "read A:x", "read a:x"], "list", "A:x", True),
        (["read a:b/../x", "read a:x"], "read", "a:b/../x", False),
        (["read a:b/%2e%2e/x", "read a:b/../x", "read a:x"], "read", "a:b/%2e%2e/x", False),
        (["call A:x"], "call", "A:x", True),  # a name is not a URI
        (["call ../x"], "call", "../x", True),
        (["get A:x"], "get", "A:x", True),
        (["get x"], "call", "x", False),
        ([], "call", "x", False),
    ],
)
def test_a_gate_is_asked_about_reading_and_about_the_canonical_form_of_a_uri(
    allowed: list[str], verb: Verb, target: str, expected: bool
) -> None:
    assert joined(Listed(*allowed)).allows(verb, target) is expected


def test_dot_segments_are_allowed_if_nothing_is_hidden() -> None:
    assert joined(UNRESTRICTED, Listed("read a:b/../x", hides=False)).allows("read", "a:b/../x")
    assert not joined(UNRESTRICTED, Listed("read a:b/../x")).allows("read", "a:b/../x")


def test_the_view_of_the_principal_has_to_allow_a_target_too() -> None:
    both = joined(Listed("read a:x", "read a:y", "call f"), Listed("read a:x", "call g"))
    found = [both.allows("read", uri) for uri in ("a:x", "a:y")] + [both.allows("call", name) for name in "fg"]
    assert found == [True, False, False, False]


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("own", [True, False, None])
def test_two_views_hide_what_either_hides(gate: bool, own: bool | None) -> None:
    second = None if own is None else Listed(hides=own, everybody=own, key="own")
    both = joined(Listed(hides=gate, everybody=gate, key="x"), second)
    assert both.hides is (gate or bool(own))
    assert both.everybody is (gate and own is not False)
    assert both.key == ("gate x" if own is None else "own\ngate x")


def test_methods_and_differences_are_those_of_both_views() -> None:
    gate, own = Listed(), Listed()
    own.permitted, gate.different, own.different = ["tools/call"], ["a:x"], ["a:y"]
    both = joined(gate, own)
    assert [both.permits(method) for method in ("tools/call", "prompts/get")] == [True, False]
    assert [both.differs(uri) for uri in ("a:x", "a:y", "a:z")] == [True, True, False]
    alone = joined(gate)
    assert [alone.permits("prompts/get"), alone.differs("a:x"), alone.differs("a:y")] == [True, True, False]


def test_a_template_reaches_what_is_allowed_in_every_spelling() -> None:
    template = UriTemplate("A:{name}")
    assert may_reach(joined(Listed("read A:-", "read a:-")), "read", template)
    assert not may_reach(joined(Listed("read A:-")), "read", template)
    assert not may_reach(joined(Listed("list A:-", "list a:-")), "list", template)
    assert not may_reach(joined(Listed("list A:-", "read A:-", "read a:-")), "list", template)
    assert may_reach(joined(Listed("list A:-", "list a:-", "read A:-", "read a:-")), "list", template)
    assert not may_reach(joined(UNRESTRICTED, Listed()), "read", template)


def test_there_is_no_view_without_gate_and_rules_and_a_gate_must_return_one() -> None:
    assert find_view(None, None) is None
    assert find_view(None, Principal(subject="alice")) is None
    own = Listed()
    assert find_view(None, Principal(subject="alice", view=own)) is own
    assert find_view(FixedGate(UNRESTRICTED), None) is UNRESTRICTED
    assert find_view(FixedGate(UNRESTRICTED), Principal(subject="alice", view=own)) is not UNRESTRICTED
    with pytest.raises(TypeError, match="must be a View"):
        find_view(FixedGate(None), None)  # type: ignore[arg-type]


class Prefixed:
    """Mapping that puts a word before names and URIs."""

    def uri_out(self, uri: str) -> str:
        return f"u+{uri}"

    def name_out(self, kind: str, name: str) -> str:
        return f"{kind}_{name}"

    def intervals_in(self, verb: Verb, intervals: Intervals) -> Intervals | None:
        return None


def test_a_view_of_a_provider_takes_names_as_clients_see_them() -> None:
    view = Listed("call tool_x", "get prompt_x", "read u+a:x", "list u+a:x", key="k", hides=False, everybody=True)
    view.permitted, view.different = ["tools/call"], ["u+a:x"]
    renamed = RenamedView(view, Prefixed())
    assert (renamed.key, renamed.hides, renamed.everybody) == ("k", False, True)
    assert [renamed.allows(verb, "x") for verb in ("call", "get", "read")] == [True, True, False]
    assert [renamed.allows(verb, "a:x") for verb in ("call", "get", "read", "list")] == [False, False, True, True]
    assert [renamed.reaches("read", uri, uri) for uri in ("a:x", "a:y")] == [True, False]
    assert [renamed.permits(method) for method in ("tools/call", "prompts/get")] == [True, False]
    assert [renamed.differs(uri) for uri in ("a:x", "u+a:x")] == [True, False]


def test_a_view_of_rules_is_made_once_and_decides_as_one_that_is_made_for_each_request() -> None:
    verbs: dict[str, frozenset[Verb]] = {"read": frozenset({"read"}), "list": frozenset({"list"}), "all": READING}
    targets = [f"{start}{path}" for start in ("a://x/", "A://x/") for path in ("1", "2", "%31", "../x/1", "./1", "b/1")]
    for reading, listing in product([("a://x/1",), ("a://x/**",), ("a://*/*", "A://x/1")], repeat=2):
        rules = [Rule(one, verbs["read"]) for one in reading] + [Rule(one, verbs["list"]) for one in listing]
        rules += [Rule("a://x/2", verbs["all"], allow=False), Rule("tool_*", frozenset({"call"}))]
        gate = FixedGate(Rules(rules).view())
        kept = find_view(gate, None)
        assert kept is not None
        assert find_view(gate, None) is kept
        other = Rules(rules).view()
        other.constant = False
        made = joined(other)
        assert joined(other) is not made
        for verb, target in [*product(("read", "list"), targets), ("call", "tool_a"), ("call", "a")]:
            assert kept.allows(verb, target) == kept.decider(verb)(target) == made.allows(verb, target)


def test_a_view_that_is_kept_is_not_used_for_a_principal_with_a_view() -> None:
    rules = Rules([Rule("a://**", READING)]).view()
    own = Listed("read a://x")
    assert find_view(FixedGate(rules), None) is not joined(rules, own)
    assert joined(rules, own).allows("read", "a://x")
    assert not joined(rules, own).allows("read", "a://y")
    assert joined(rules).allows("read", "a://y")
