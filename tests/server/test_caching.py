"""How long results are good, and for whom.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.errors import ConfigError
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.transports import memory
from support.answering_client import CAPABLE
from support.capabilities import everything
from support.http_requests import ask
from support.http_server import over_http
from support.memory_client import LATEST, result

pytestmark = pytest.mark.requirement


CACHEABLE: dict[str, dict[str, Any]] = {
    "server/discover": {},
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "memo://1"},
}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


# requirement: 2026-07-28:server/utilities/caching#cacheable-results-1
@pytest.mark.parametrize(("ttl", "scope"), [(0, "private"), (1.5, "public")])
async def test_cacheable_results_say_how_long_and_for_whom(ttl: float, scope: Any) -> None:
    async with memory.connect(everything(ttl=ttl, scope=scope), LATEST, **CAPABLE) as peer:
        for method, params in CACHEABLE.items():
            found = await result(peer, method, **params)
            assert (found["ttlMs"], found["cacheScope"]) == (ttl * 1000, scope), method
            assert type(found["ttlMs"]) is int
        asked = await result(peer, "tools/call", name="ask")
        assert not {"ttlMs", "cacheScope"} & set(asked)


# requirement: 2026-07-28:server/utilities/caching#time-to-live-ttl-field-1
def test_a_time_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError):
        Server("s", ttl=-1)
    with pytest.raises(ConfigError):
        Server("s").resources.add("memo://1", "x", ttl=-0.001)


# requirement: 2026-07-28:server/utilities/caching#interaction-with-pagination-1
@pytest.mark.parametrize("scope", ["private", "public"])
async def test_all_pages_of_a_list_have_the_same_scope(scope: Any) -> None:
    app = everything(scope=scope)
    app.resources.add("memo://own", "x", scope="public" if scope == "private" else "private")
    async with memory.connect(app, LATEST) as peer:
        for method in LISTS:
            scopes, cursor = [], {}
            while True:
                page = await result(peer, method, **cursor)
                scopes.append(page["cacheScope"])
                if "nextCursor" not in page:
                    break
                cursor = {"cursor": page["nextCursor"]}
            assert len(scopes) > 1, method
            assert set(scopes) == {scope}, method


# requirement: 2026-07-28:server/utilities/caching#security-considerations-1
async def test_results_are_private_unless_they_are_declared_public() -> None:
    async with memory.connect(everything(), LATEST) as peer:
        for method, params in CACHEABLE.items():
            assert (await result(peer, method, **params))["cacheScope"] == "private"


# requirement: 2026-07-28:server/utilities/caching#security-considerations-2
@pytest.mark.slow
def test_what_is_public_to_caches_is_guarded_all_the_same(tmp_path: Path) -> None:
    app = everything(scope="public", ttl=60)
    token, line = make_token("alice", ["mcp"])
    (tmp_path / "tokens").write_text(f"{line}\n")
    guard = StaticTokens(tmp_path / "tokens", scopes={"*": "mcp", "memo://2": "more"})
    with over_http(app, authorization=guard) as origin:
        url = f"{origin}/mcp"
        assert ask(url, "resources/read", token, uri="memo://1").result["cacheScope"] == "public"
        assert ask(url, "resources/read", token, uri="memo://2").status == 403
        assert ask(url, "resources/read", uri="memo://1").status == 401
