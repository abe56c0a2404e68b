"""Protected resource metadata: which servers they may be about, and where they are."""

from __future__ import annotations

import pytest

from carrel.security.client.protected_resource import identifies, locations, origin_of

URL = "https://mcp.example/team/mcp"


@pytest.mark.parametrize(
    ("resource", "fits"),
    [
        (URL, True),
        ("https://MCP.example:443/team/mcp", True),
        ("https://mcp.example/team", True),
        ("https://mcp.example/team/", True),
        ("https://mcp.example/", True),
        ("https://mcp.example", True),
        ("https://mcp.example/te", False),
        ("https://mcp.example/team/mcp/more", False),
        ("https://mcp.example/team/other", False),
        ("https://mcp.example/team/mcp#part", False),
        ("https://mcp.example/team/mcp?tenant=1", False),
        ("https://mcp.example/team?tenant=1", False),
        ("https://mcp.example/other/%2e%2e/team", False),
        ("https://mcp.example/team/%2E%2E", False),
        ("http://mcp.example/team/mcp", False),
        ("https://mcp.example:8443/team/mcp", False),
        ("https://evil.example/team/mcp", False),
        ("https://mcp.example.evil.example/team/mcp", False),
        ("https://[::1/team/mcp", False),
        ("https://mcp.example:x/team/mcp", False),
        ("", False),
    ],
)
def test_a_resource_is_the_server_or_a_path_above_it(resource: str, fits: bool):
    assert identifies(resource, URL) is fits


@pytest.mark.parametrize(("resource", "fits"), [("?tenant=1", True), ("", True), ("?tenant=2", False)])
def test_a_query_of_a_resource_is_that_of_the_server(resource: str, fits: bool):
    assert identifies(f"{URL}{resource}", f"{URL}?tenant=1") is fits


@pytest.mark.parametrize(
    ("url", "paths"),
    [
        ("https://a.example/b/c", ["/b/c", ""]),
        ("https://a.example/b/", ["/b", ""]),
        ("https://a.example/", [""]),
        ("https://a.example", [""]),
        ("https://a.example/b?c=d", ["/b", ""]),
    ],
)
def test_metadata_are_looked_for_by_path_and_then_at_the_root(url: str, paths: list[str]):
    assert locations(url) == [f"https://a.example/.well-known/oauth-protected-resource{path}" for path in paths]


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTPS://A.example/x", "https://a.example:443"),
        ("http://a.example", "http://a.example:80"),
        ("http://[::1]:8000/x", "http://[::1]:8000"),
        ("https://user@a.example:8443/", "https://a.example:8443"),
    ],
)
def test_an_origin_has_its_port(url: str, origin: str):
    assert origin_of(url) == origin
