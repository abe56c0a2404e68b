"""Tokens from a file."""

from __future__ import annotations

import os
import time
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carrel.errors import ConfigError
from carrel.security import StaticTokens
from carrel.security.server.bearer import InvalidToken
from carrel.security.server.static_tokens import make_token
from support.http_requests import ask, build, initialize, request
from support.http_server import over_http


def line(token: str, rest: str = "alice") -> str:
    return f"sha256:{sha256(token.encode()).hexdigest()} {rest}\n"


async def test_a_file_says_whose_a_token_is_and_what_it_may_do(tmp_path: Path):
    path = tmp_path / "tokens.txt"
    path.write_text(
        f"# people\n\n{line('one', 'alice a b # comment')}   {line('two', 'bob').upper().replace('SHA256', 'sha256')}"
    )
    guard = StaticTokens(path, implies={"a": "c"})
    alice, bob = await guard.verify("one"), await guard.verify("two")
    assert (alice.subject, sorted(alice.scopes)) == ("alice", ["a", "b", "c"])
    assert (bob.subject, bob.scopes) == ("BOB", frozenset())
    assert alice.token_id == sha256(b"one").hexdigest()[:12]
    for wrong in ("three", "", sha256(b"one").hexdigest(), "ONE"):
        with pytest.raises(InvalidToken):
            await guard.verify(wrong)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("secret-token alice", "line 1: a line begins with sha256:"),
        ("\n\nsha256:abc alice", "line 3: a line begins"),
        (f"md5:{'0' * 64} alice", "line 1"),
        (f"sha256:{'g' * 64} alice", "line 1"),
        (f"sha256:{'0' * 64}", "line 1: the hash must be followed by"),
        (f'sha256:{"0" * 64} alice a"b', "line 1: the scopes"),
    ],
)
def test_a_line_that_is_not_understood_stops_the_start_and_is_not_repeated(tmp_path: Path, text: str, complaint: str):
    path = tmp_path / "tokens.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        StaticTokens(path)
    assert "secret-token" not in str(caught.value)


def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"missing\.txt: No such file"):
        StaticTokens(tmp_path / "missing.txt")
    with pytest.raises(ConfigError, match="Is a directory"):
        StaticTokens(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        StaticTokens(tmp_path / "binary")


async def test_the_file_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "tokens.txt"
    path.write_text(line("one"))
    guard = StaticTokens(path)
    now = time.monotonic()

    async def lets_in(token: str) -> bool:
        nonlocal now
        now += 2
        guard.monotonic = lambda: now
        try:
            await guard.verify(token)
        except InvalidToken:
            return False
        return True

    assert await lets_in("one")
    path.write_text(line("one") + line("two"))
    assert await lets_in("two")
    replacement = tmp_path / "new.txt"
    replacement.write_text(line("two") + "half a li")
    os.replace(replacement, path)
    assert await lets_in("two")
    assert not await lets_in("one")
    assert "line 2" in caplog.text
    path.unlink()
    assert not await lets_in("two")
    assert "all requests are refused" in caplog.text
    path.write_text(line("two"))
    assert await lets_in("two")


def test_over_http_there_are_sessions_of_their_own_and_no_metadata(tmp_path: Path):
    (alice, one), (bob, two) = make_token("alice", ["mcp"]), make_token("bob", ["mcp"])
    path = tmp_path / "tokens.txt"
    path.write_text(f"{one}\n{two}\n")
    with over_http(build(), authorization=StaticTokens(path, scopes={"*": "mcp", "secret://*": "s"})) as origin:
        url = f"{origin}/mcp"
        assert ask(url, "resources/read", alice, uri="memo://open").result["contents"][0]["text"] == "alice"
        refused = ask(url, "resources/read", uri="memo://open")
        assert (refused.status, refused.challenge) == (401, {"scope": "mcp"})
        refused = ask(url, "resources/read", alice, uri="secret://plan")
        assert (refused.status, refused.challenge["scope"]) == (403, "mcp s")
        session = {"mcp-session-id": initialize(url, alice)}
        listing = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
        assert request(url, listing, session, alice).status == 200
        assert request(url, listing, session, bob).status == 404
        assert request(f"{origin}/.well-known/oauth-protected-resource", None, {}, method="GET").status == 404


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_file_is_read_or_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "tokens.txt"
    path.write_bytes(content)
    try:
        StaticTokens(path)
    except ConfigError:
        pass
