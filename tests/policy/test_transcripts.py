"""Random policies: no byte that a server sends to a caller shows what the policy denies.

Every verb, spelling and method is tried in sessions and without: lists, reads, directories, completion, search, tools
over resources, subscriptions and errors, and the same again after another caller has filled the caches.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel import Server
from carrel.catalog.rules import READING
from carrel.policy import Policy, PolicyRule, Role
from carrel.protocol.principal import Principal, View
from carrel.sources.files.source import FilesSource
from carrel.transports.memory import MemoryPeer, connect
from carrel.uri.parse import file_uri
from support.examples import examples

REVISIONS = ("2025-11-25", "2026-07-28")
ROLES = ("viewer", "editor")
NOTES = [f"{team}/{name}" for team in ("blue", "green") for name in ("one", "draft-two", "sub/three")]
PATTERNS = ["**", "blue/**", "*/draft-*", "{claim.team}/**", "green/one", "*/*", "**/three", "green/**"]
TOOLS = ["add", "list_resources", "read_resource", "search_resources"]
RULES = st.lists(
    st.tuples(st.sampled_from([*ROLES, "*"]), st.booleans(), st.sampled_from(PATTERNS)), min_size=1, max_size=6
)
CALLERS = st.tuples(st.frozensets(st.sampled_from(ROLES)), st.sampled_from([(), ("blue",), ("blue", "green")]))
Rows = list[tuple[str, bool, str]]
Caller = tuple[frozenset[str], tuple[str, ...]]


def expected(rules: Rows, caller: Caller, note: str) -> bool:
    """Return whether a policy allows a note: the oracle, which takes rules one by one."""
    allowed = False
    for role, allow, pattern in rules:
        if role not in {*caller[0], "*"}:
            continue
        for team in (caller[1] or (() if allow else ("*",))) if "{" in pattern else ("",):
            text = re.escape(f"/{pattern}".replace("{claim.team}", team)).replace(r"/\*\*/", "/(.*/)?")
            if re.fullmatch(text.replace(r"/\*\*", "(/.*)?").replace(r"\*", "[^/]*"), f"/{note}"):
                if not allow:
                    return False
                allowed = True
    return allowed


class Switch:
    """Gate for one caller at a time."""

    view_now: View

    def view(self, _: Principal | None) -> View:
        return self.view_now


def secret(note: str) -> str:
    return f"secret-of-{note.replace('/', '-')}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("notes")
    for note in NOTES:
        (found / note).parent.mkdir(parents=True, exist_ok=True)
        (found / note).write_text(secret(note))
    return found


def build(folder: Path) -> Server:
    app = Server("notes", gate=Switch())
    app.add_provider(FilesSource(str(folder)))
    app.skills()
    for note in NOTES:
        app.resources.add(f"notes://{note}", secret(note), description=f"about {secret(note)}")

    @app.resource("memo://{team}/{+name}")
    def memo(team: str, name: str) -> str:
        return secret(f"{team}/{name}")

    @memo.complete("name")
    def names(value: str) -> list[str]:
        return [note.partition("/")[2] for note in NOTES]

    app.add_resource_tools(search=True)
    return app


def policy_of(rules: Rows, root: str) -> Policy:
    made = [
        PolicyRule(f"{start}/{pattern}", READING, allow, roles=frozenset([role]))
        for role, allow, pattern in rules
        for start in ("notes:/", "memo:/", root)
    ]
    made += [PolicyRule(name, frozenset({"call"}), roles=frozenset("*")) for name in TOOLS]
    return Policy([Role(name=role, claims={"roles": [role]}) for role in ROLES], made)


def spellings(uri: str) -> Iterator[str]:
    """Yield texts that a careless server may take for the same resource."""
    yield uri
    head, _, tail = uri.rpartition("/")
    yield f"{head}/%{ord(tail[0]):02x}{tail[1:]}"
    yield f"{head}/x/../{tail}"
    yield f"{head}/./{tail}"
    yield f"{head}//{tail}"
    yield uri.replace("://", "://").replace(uri.partition(":")[0], uri.partition(":")[0].upper(), 1)
    yield f"{uri}?q=1"
    yield f"{uri}#f"
    yield f"{uri}/"


def requests(uris: list[str], root: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield requests of all methods that may name a resource in their answers."""
    for method in ("resources/list", "resources/templates/list", "tools/list"):
        yield method, {}
    for uri in uris:
        for spelling in spellings(uri):
            yield "resources/read", {"uri": spelling}
        yield "resources/directory/read", {"uri": uri.rpartition("/")[0]}
        yield "tools/call", {"name": "read_resource", "arguments": {"uri": uri}}
        yield "resources/subscribe", {"uri": uri}
    yield "resources/directory/read", {"uri": root}
    for team in ("blue", "green"):
        reference = {"type": "ref/resource", "uri": "memo://{team}/{+name}"}
        argument = {"name": "name", "value": ""}
        yield (
            "completion/complete",
            {"ref": reference, "argument": argument, "context": {"arguments": {"team": team}}},
        )
    for query in ("one", "draft", "three", "secret"):
        yield "tools/call", {"name": "search_resources", "arguments": {"query": query}}
    yield "tools/call", {"name": "list_resources", "arguments": {}}


async def transcript(peer: MemoryPeer, uris: list[str], root: str) -> list[tuple[str, dict[str, Any], str]]:
    """Send all requests, and return each with its answer, without what the answer repeats of the request."""
    found = []
    for method, params in requests(uris, root):
        answer = await peer.request(method, params)
        answer.pop("id", None)
        found.append((method, params, json.dumps(answer)))
    return found


def note_of(uri: str, root: str) -> str:
    return uri.removeprefix("notes://").removeprefix(f"{root}/")


async def notified(peer: MemoryPeer, wanted: set[str]) -> set[str]:
    """Return the resources that a session is notified of, up to a change of a list."""
    found: set[str] = set()
    lists = 0
    while lists == 0 or not wanted <= found:
        message = await peer.notification()
        lists += message["method"].endswith("list_changed")
        if message["method"] == "notifications/resources/updated":
            found.add(message["params"]["uri"])
    await peer.request("ping")
    return found


@settings(max_examples=examples(6), deadline=None)
@given(RULES, st.tuples(CALLERS, CALLERS))
def test_no_answer_shows_what_the_policy_denies(folder: Path, rules: Rows, callers: tuple[Caller, Caller]) -> None:
    root = file_uri(folder)
    policy = policy_of(rules, root)
    app = build(folder)
    gate = app.gate
    assert isinstance(gate, Switch)
    uris = [f"{start}/{note}" for note in NOTES for start in ("notes:/", root)]

    async def check() -> None:
        seen: dict[tuple[Caller, str], list[tuple[str, dict[str, Any], str]]] = {}
        for revision in REVISIONS:
            for caller in (*callers, *callers):  # the second time, pages and decisions are cached
                held, teams = caller
                claims = {"roles": list(held), "team": list(teams)}
                gate.view_now = policy.view(Principal(subject="ann", claims=claims))
                async with connect(app, revision) as peer:
                    answers = await transcript(peer, uris, root)
                    before = seen.setdefault((caller, revision), answers)
                    assert answers == before
                    if revision < "2026":
                        app.list_changed(uris)
                        wanted = {uri for uri in uris if expected(rules, caller, note_of(uri, root))}
                        assert await notified(peer, wanted) == wanted
                check_answers(rules, caller, answers)

    asyncio.run(check())


def check_answers(rules: Rows, caller: Caller, answers: list[tuple[str, dict[str, Any], str]]) -> None:
    allowed = {note for note in NOTES if expected(rules, caller, note)}
    for method, params, answer in answers:
        asked = json.dumps(params)
        for note in set(NOTES) - allowed:
            assert secret(note) not in answer, (method, params)
            if note not in asked:
                assert f"/{note}" not in answer, (method, params)
        uri = params.get("uri", "")
        if method == "resources/read" and any(uri == f"notes://{note}" for note in allowed):
            assert secret(uri.removeprefix("notes://")) in answer
    listed = next(answer for method, _, answer in answers if method == "resources/list")
    for note in allowed:
        assert f'"notes://{note}"' in listed
