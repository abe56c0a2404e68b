"""The metadata document: where it is, what it says, and at which address a server takes tokens."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount

from carrel.security import Authorization
from carrel.security.server.metadata import WELL_KNOWN, canonical, local_resource, metadata_url
from support.http_requests import ask, build, challenge_of, request
from support.http_server import over_http
from support.token_issuer import Issuer

RESOURCE = "https://mcp.example/public/mcp"


def authorization(**options: Any) -> Authorization:
    return Authorization("https://auth.example", **options)


@pytest.mark.parametrize(
    ("uri", "form"),
    [
        ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp"),
        ("HTTPS://MCP.Example.com/MCP", "https://mcp.example.com/MCP"),
        ("https://mcp.example.com/", "https://mcp.example.com"),
        ("https://mcp.example.com:443/a/", "https://mcp.example.com/a"),
        ("http://localhost:80", "http://localhost"),
        ("https://mcp.example.com:8443", "https://mcp.example.com:8443"),
        ("urn:example:books", "urn:example:books"),
        ("api://books", "api://books"),
        ("books", "books"),
        ("", ""),
    ],
)
def test_uris_are_compared_in_their_canonical_form(uri: str, form: str):
    assert canonical(uri) == form


def test_the_document_says_what_the_server_knows_of_itself():
    guard = authorization(
        resource=RESOURCE,
        scopes={"*": "a b", "tools/call": "c"},
        name="Books",
        documentation="https://books.example/developers",
    )
    with over_http(build(), authorization=guard) as origin:
        reply = request(f"{origin}{WELL_KNOWN}", None, {}, method="GET")
    assert reply.body == {
        "resource": RESOURCE,
        "authorization_servers": ["https://auth.example"],
        "scopes_supported": ["a", "b"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Books",
        "resource_documentation": "https://books.example/developers",
    }
    assert reply.headers["content-type"] == "application/json"
    assert "max-age" in reply.headers["cache-control"]


def test_the_document_is_at_the_root_at_the_path_and_where_the_challenge_says():
    with over_http(build(), authorization=authorization()) as origin:
        for path in ("", "/", "/mcp", "/mcp/"):
            reply = request(f"{origin}{WELL_KNOWN}{path}", None, {}, method="GET")
            assert reply.body["resource"] == f"{origin}/mcp", path
        assert ask(f"{origin}/mcp", "tools/list").challenge["resource_metadata"] == f"{origin}{WELL_KNOWN}/mcp"
        for path in ("/other", "x", "/mcp/x", "/%2e%2e"):
            assert request(f"{origin}{WELL_KNOWN}{path}", None, {}, method="GET").status == 404, path
        assert request(f"{origin}{WELL_KNOWN}", b"", {}).status == 404  # only GET
    with over_http(build(), authorization=authorization(resource=RESOURCE)) as origin:
        assert request(f"{origin}{WELL_KNOWN}/public/mcp", None, {}, method="GET").body["resource"] == RESOURCE
        challenge = ask(f"{origin}/mcp", "tools/list").challenge
        assert challenge["resource_metadata"] == f"https://mcp.example{WELL_KNOWN}/public/mcp"


def test_without_authorization_there_is_no_document():
    with over_http(build()) as origin:
        assert request(f"{origin}{WELL_KNOWN}/mcp", None, {}, method="GET").status == 404


async def test_mounted_within_another_application_it_is_beside_the_endpoint_too():
    mcp = build().asgi(path="/", authorization=authorization())
    outer = Starlette(
        routes=[Mount("/books", mcp), Mount(WELL_KNOWN, mcp)],
        lifespan=mcp.lifespan,
    )
    transport = httpx2.ASGITransport(outer, client=("127.0.0.1", 1))
    async with mcp.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://localhost:8123") as client:
        refused = await client.post("/books/", json={}, headers={"accept": "application/json"})
        assert refused.status_code == 401
        challenge = challenge_of(refused)
        assert challenge["resource_metadata"] == f"http://localhost:8123/books{WELL_KNOWN}"
        for path in (f"/books{WELL_KNOWN}", f"{WELL_KNOWN}/books", f"{WELL_KNOWN}/books/"):
            reply = await client.get(path)
            assert reply.status_code == 200, path
            assert reply.json()["resource"] == "http://localhost:8123/books", path


def test_pages_may_read_the_document_and_the_challenge_if_their_origin_may_call():
    page = {"origin": "https://app.example"}
    with over_http(build(), authorization=authorization(), allowed_origins=["https://app.example"]) as origin:
        document = request(f"{origin}{WELL_KNOWN}/mcp", None, page, method="GET")
        assert document.headers["access-control-allow-origin"] == "https://app.example"
        asking = {**page, "access-control-request-headers": "mcp-protocol-version"}
        preflight = request(f"{origin}{WELL_KNOWN}/mcp", None, asking, method="OPTIONS")
        assert (preflight.status, preflight.headers["access-control-allow-headers"]) == (204, "mcp-protocol-version")
        asking = {**page, "access-control-request-headers": "authorization"}
        preflight = request(f"{origin}/mcp", None, asking, method="OPTIONS")
        assert (preflight.status, preflight.headers["access-control-allow-headers"]) == (204, "authorization")
        refused = ask(f"{origin}/mcp", "tools/list", headers=page)
        assert refused.headers["access-control-allow-origin"] == "https://app.example"
        assert "www-authenticate" in refused.headers["access-control-expose-headers"]
        stranger = {"origin": "https://evil.example"}
        assert request(f"{origin}{WELL_KNOWN}/mcp", None, stranger, method="GET").status == 403


def test_without_a_configured_resource_only_loopback_hosts_are_admitted(issuer: Issuer):
    """The Host header is the client's: with it, a token for a neighbour could be made to look like one for this."""
    guard = Authorization(issuer.url)
    with over_http(build(), authorization=guard, allowed_hosts=["*"]) as origin:
        port = origin.rpartition(":")[2]
        token = issuer.token(aud=f"http://localhost:{port}/mcp")
        for host, status in (
            (f"localhost:{port}", 200),
            (f"LOCALHOST:{port}", 200),
            (f"127.0.0.1:{port}", 401),
            ("localhost", 421),
            ("localhost:1", 421),
            ("mcp.example", 421),
            (f"mcp.example:{port}", 421),
            (f"localhost:{port}@mcp.example", 421),
            (f"[::1]:{port}", 401),
            ("localhost:99999", 421),
        ):
            reply = ask(f"{origin}/mcp", "tools/list", token, {"host": host})
            assert reply.status == status, (host, reply)
            if status == 421:
                assert "resource=" in reply.body["error"]["message"]
                assert request(f"{origin}{WELL_KNOWN}/mcp", None, {"host": host}, method="GET").status == 421


def test_a_server_with_a_name_takes_tokens_for_it_from_everywhere(issuer: Issuer):
    guard = Authorization(issuer.url, resource=RESOURCE)
    with over_http(build(), authorization=guard, allowed_hosts=["mcp.example"]) as origin:
        token = issuer.token(aud=RESOURCE)
        for host in ("mcp.example", "localhost:1"):
            assert ask(f"{origin}/mcp", "tools/list", token, {"host": host}).status == 200
        assert ask(f"{origin}/mcp", "tools/list", issuer.token(aud=f"{origin}/mcp")).status == 401


@given(host=st.binary(max_size=40), port=st.integers(1, 65535))
def test_whatever_the_host_header_says_only_this_machine_is_believed(host: bytes, port: int):
    scope = {"headers": [(b"host", host)], "server": ("127.0.0.1", port), "scheme": "http"}
    found = local_resource(scope, "/mcp")
    assert found is None or found.startswith(("http://localhost", "http://127.", "http://[::1]"))


def test_where_the_document_of_a_server_is():
    assert metadata_url("https://a.example", mounted=False) == f"https://a.example{WELL_KNOWN}"
    assert metadata_url("https://a.example:8/b/c", mounted=False) == f"https://a.example:8{WELL_KNOWN}/b/c"
    assert metadata_url("https://a.example/b", mounted=True) == f"https://a.example/b{WELL_KNOWN}"
