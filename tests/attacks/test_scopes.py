"""Clients that look for a way past the rules for resources, over HTTP, with tokens that lack the scope."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from carrel import Client
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.types import HTTPOptions
from support.http_requests import Reply, ask, initialize, request
from support.http_server import over_http
from support.protected_folder import TREASURE, build, fill, rules

SPELLINGS = (
    "file://{root}/priv/secret.txt",
    "file:{root}/priv/secret.txt",
    "FILE:{root}/priv/secret.txt",
    "file://localhost{root}/priv/secret.txt",
    "file://LOCALHOST{root}/%70riv/secret.txt",
    "file:{root}/%70riv/secret.txt",
    "file:{root}/priv/secret.txt?bytes=0-7",
    "FILE:{root}/%70%72%69%76/secret.txt?lines=1",
    "file:{root}/priv/secret.txt/",
    "file:{root}/open/../priv/secret.txt",
    "file:{root}/priv%2Fsecret.txt",
    "file:{root}/door/secret.txt",
    "file://{root}/note.txt",
    "file://{root}/note.txt?bytes=0-7",
    "file://{root}/open/hop/secret.txt",
)
FOLDERS = (
    "file:{root}/priv",
    "file://{root}/priv/",
    "FILE:{root}/%70riv",
    "file://{root}/door",
    "file:{root}/open/hop",
)
TYPED = ("", "p", "n", "priv", "priv/", "PRIV/", "%70riv/", "door/", "open/", "open/hop/", "open/hop/deep/")
#: Those of the spellings that a file may have.
PROPER = tuple(spelling for spelling in SPELLINGS if ".." not in spelling and "%2F" not in spelling)


class Place:
    """A server over HTTP with a folder of which a part takes the scope ``vault``, and tokens with and without it."""

    def __init__(self, url: str, root: Path, none: str, vault: str) -> None:
        self.url, self.root, self.none, self.vault = url, root, none, vault

    def ask(self, method: str, token: str | None = None, **params: Any) -> Reply:
        """Send a request, without the scope if no other token is given."""
        return ask(self.url, method, token or self.none, **params)

    def call(self, tool: str, token: str | None = None, **arguments: Any) -> Any:
        """Call a tool, and return its result."""
        return self.ask("tools/call", token, name=tool, arguments=arguments).result


@contextmanager
def served(root: Path, page_size: int) -> Iterator[Place]:
    """Serve a new folder."""
    fill(root)
    (none, one), (vault, two) = make_token("mallory"), make_token("alice", ["vault", "other"])
    tokens = root.parent / "tokens.txt"
    tokens.write_text(f"{one}\n{two}\n")
    app = build(root, page_size=page_size)
    with over_http(app, authorization=StaticTokens(tokens, scopes=rules(root))) as origin:
        yield Place(f"{origin}/mcp", root, none, vault)


@pytest.fixture(scope="module", params=[100, 1], ids=["long pages", "short pages"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with served(tmp_path_factory.mktemp("shared").resolve() / "root", request.param) as place:
        yield place


def hides(reply: Reply | dict[str, Any]) -> bool:
    return TREASURE not in str(reply) and base64.b64encode(TREASURE.encode()).decode() not in str(reply)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_file_is_not_read_however_its_uri_is_spelled(place: Place, spelling: str):
    uri = spelling.format(root=place.root)
    reply = place.ask("resources/read", uri=uri)
    assert hides(reply)
    if reply.status == 403:
        assert "vault" in reply.challenge["scope"]
        assert reply.challenge["error"] == "insufficient_scope"
    else:  # a link: nothing says that there is something
        missing = place.ask("resources/read", uri=f"file://{place.root}/none.txt")
        assert reply.body["error"]["code"] == missing.body["error"]["code"]
        assert reply.body["error"]["message"] == missing.body["error"]["message"]
    for tool in ("read_resource", "open_it"):
        assert place.call(tool, uri=uri)["isError"], tool


@pytest.mark.parametrize("spelling", PROPER)
def test_the_same_spellings_serve_those_who_have_the_scope(place: Place, spelling: str):
    uri = spelling.format(root=place.root)
    text = place.ask("resources/read", place.vault, uri=uri).result["contents"][0]["text"]
    assert text == (TREASURE[:8] if "bytes" in spelling else TREASURE)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_subscription_does_not_reveal_a_file_however_its_uri_is_spelled(place: Place, spelling: str):
    session = {"mcp-session-id": initialize(place.url, place.none)}
    for method in ("resources/subscribe", "resources/unsubscribe"):
        hidden, missing = (
            request(
                place.url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": uri}}, session, place.none
            )
            for uri in (spelling.format(root=place.root), f"file://{place.root}/none.txt")
        )
        assert hidden.status == 403 or "error" in hidden.body or hidden.body == missing.body, method


async def test_changes_of_a_hidden_file_reach_no_subscriber_of_a_link_to_it(tmp_path: Path):
    with served(tmp_path.resolve() / "root", 100) as place:
        files = place.root.as_uri()
        links = [f"{files}/note.txt", f"{files}/door/secret.txt", f"{files}/open/hop/secret.txt"]
        readme = f"{files}/open/readme.txt"
        async with (
            Client(place.url, http=HTTPOptions(auth=place.none)) as mallory,
            Client(place.url, http=HTTPOptions(auth=place.vault)) as alice,
            mallory.watch(*links, readme) as seen,
            alice.watch(f"{files}/priv/secret.txt") as notified,
            asyncio.timeout(60),
        ):
            (place.root / "priv" / "secret.txt").write_text(f"{TREASURE}!")
            assert (await anext(notified)).uri == f"{files}/priv/secret.txt"
            (place.root / "open" / "readme.txt").write_text("changed")
            assert (await anext(seen)).uri == readme


@pytest.mark.parametrize("spelling", FOLDERS)
def test_a_folder_is_not_looked_into_however_its_uri_is_spelled(place: Place, spelling: str):
    uri = spelling.format(root=place.root)
    for method in ("resources/directory/read", "resources/read"):
        reply = place.ask(method, uri=uri)
        assert reply.status == 403 or "error" in reply.body, method
        assert "deep" not in str(reply.body), method
        assert "deep" in str(place.ask(method, place.vault, uri=uri).result), method
    assert place.call("list_resources", directory=uri)["isError"]
    assert "deep" in str(place.call("list_resources", place.vault, directory=uri))


def pages(place: Place, method: str, token: str) -> Iterator[dict[str, Any]]:
    cursor: dict[str, str] = {}
    for _ in range(100):
        result = place.ask(method, token, **cursor).result
        yield result
        if "nextCursor" not in result:
            return
        cursor = {"cursor": result["nextCursor"]}
    raise AssertionError("the list has no end")


def test_lists_leave_out_what_a_rule_hides_on_every_page(place: Place):
    for _ in range(2):  # what is kept from before is another's
        everything = list(pages(place, "resources/list", place.vault))
        some = list(pages(place, "resources/list", place.none))
    root = place.root.as_uri()
    every = [entry["uri"] for page in everything for entry in page["resources"]]
    seen = [entry["uri"] for page in some for entry in page["resources"]]
    assert seen == [uri for uri in every if not uri.startswith((f"{root}/priv/", f"{root}/note.txt"))]
    assert {f"{root}/open/readme.txt", f"{root}/private.txt"} <= set(seen)
    for page in some:
        cursor = page.get("nextCursor", "")
        decoded = base64.urlsafe_b64decode(cursor + "==")
        assert "secret" not in json.dumps(page)
        assert not any(hidden in decoded for hidden in (b"secret", b"priv/", b"note"))
    assert {page["cacheScope"] for page in (*some, *everything)} == {"private"}


def test_mirrored_tools_leave_out_what_a_rule_hides(place: Place):
    cursor: dict[str, str] = {}
    found: list[str] = []
    while True:
        listed = json.loads(place.call("list_resources", **cursor)["content"][0]["text"])
        found += [entry["uri"] for entry in listed["resources"]]
        if "nextCursor" not in listed:
            break
        cursor = {"cursor": listed["nextCursor"]}
    assert f"{place.root.as_uri()}/open/readme.txt" in found
    assert not [uri for uri in found if "secret" in uri or "note" in uri]
    for query in ("secret", "note", "deep", "txt"):
        assert "secret" not in str(place.call("search_resources", query=query)["content"]), query
        assert "note.txt" not in str(place.call("search_resources", query=query)["content"]), query
    assert "secret" in str(place.call("search_resources", place.vault, query="secret")["content"])
    assert "readme" in str(place.call("search_resources", query="readme")["content"])


@pytest.mark.parametrize("typed", TYPED)
def test_completion_leaves_out_what_a_rule_hides(place: Place, typed: str):
    reference = {"type": "ref/resource", "uri": f"{place.root.as_uri()}/{{+path}}"}
    reply = place.ask("completion/complete", ref=reference, argument={"name": "path", "value": typed})
    if reply.status == 403:
        assert typed.lower() in ("priv/", "%70riv/")
        return
    values = reply.result["completion"]["values"]
    assert not [value for value in values if value.startswith(("priv/", "door", "note", "open/hop"))]
    assert reply.result["completion"].get("total", len(values)) == len(values)
    whole = place.ask("completion/complete", place.vault, ref=reference, argument={"name": "path", "value": typed})
    assert typed == "%70riv/" or set(values) < set(whole.result["completion"]["values"])
