"""Apps of tools: the proxy, the policy of the app, and the origins that it may use."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from carrel import Server
from carrel.studio.app_proxy import PROXY
from carrel.studio.apps import app_of, split
from carrel.wire.apps import PageSecurity
from carrel.wire.tools import Tool
from support.studio_page import Page, app_server, opened

HTML = "<!doctype html><title>App</title><h1>An app</h1>"


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    app = Server("apps")
    app.ui("ui://apps/view.html", HTML, csp={"connect_domains": ["https://api.example.com", "http://127.0.0.1:1"]})
    app.resources.add("ui://apps/text.txt", "no page", mime_type="text/plain")

    @app.tool(ui="ui://apps/view.html")
    def show() -> str:
        return "shown"

    @app.tool(meta={"ui": {"resourceUri": "ui://apps/text.txt"}})
    def text() -> str:
        return "text"

    @app.tool
    def plain() -> str:
        return "plain"

    async with opened(app_server(app)) as page:
        await page.ready("apps")
        yield page


@pytest.mark.slow
async def test_an_app_opens_once_with_the_policy_of_its_metadata(page: Page) -> None:
    app = await page.post_and_wait("/apps", {"server": "apps", "name": "show"})
    assert app["origins"] == ["https://api.example.com"]
    assert app["refused"] == ["http://127.0.0.1:1"]
    proxy, _, id = app["url"].partition("#")
    assert proxy == app["origin"] + PROXY
    async with page.session.get(f"{app['origin']}/{id}") as response:
        assert await response.text() == HTML
        (policy,) = response.headers.getall("Content-Security-Policy")
    rules = {name: values for name, _, values in (each.strip().partition(" ") for each in policy.split(";"))}
    assert rules["sandbox"] == "allow-scripts"
    assert rules["connect-src"] == "https://api.example.com"
    assert (rules["default-src"], rules["frame-src"], rules["form-action"], rules["object-src"]) == ("'none'",) * 4
    assert rules["frame-ancestors"] == f"{page.origin} {app['origin']}"
    async with page.session.get(f"{app['origin']}/{id}") as response:
        assert response.status == 404


@pytest.mark.slow
async def test_the_proxy_runs_one_script_and_frames_the_content_origin_only(page: Page) -> None:
    origin = page.studio.links.origin
    async with page.session.get(origin + PROXY) as response:
        assert response.status == 200
        (policy,) = response.headers.getall("Content-Security-Policy")
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "unsafe" not in policy
    assert f"frame-src {origin};" in policy
    assert f"frame-ancestors {page.origin};" in policy
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        async with page.session.get(origin + PROXY, headers=headers) as response:
            assert response.status in (403, 421)


@pytest.mark.slow
async def test_only_a_tool_with_a_page_has_an_app(page: Page) -> None:
    for name in ("plain", "text", "none"):
        assert (await page.ask("POST", "/apps", {"server": "apps", "name": name}))[0] == 404
    assert (await page.ask("POST", "/apps", {"server": "other", "name": "show"}))[0] == 404


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "https:",
        "https://*",
        "http://api.example.com",
        "https://localhost",
        "https://127.0.0.1",
        "https://a.example; script-src *",
        "https://a.example 'unsafe-eval'",
        "https://a.example/path",
        "data:",
        "'self'",
        "",
    ],
)
def test_an_app_may_use_only_encrypted_origins_of_other_machines(origin: str) -> None:
    allowed, refused = split(PageSecurity(resource_domains=["https://*.example.com:443", origin]))
    assert allowed.resource_domains == ["https://*.example.com:443"]
    assert refused == [origin]


@pytest.mark.parametrize(
    ("meta", "uri"),
    [
        (None, None),
        ({"ui": {"resourceUri": "ui://a"}}, "ui://a"),
        ({"ui/resourceUri": "ui://b"}, "ui://b"),
        ({"ui": {"resourceUri": "https://evil.example"}}, None),
        ({"ui": {"resourceUri": 1}}, None),
        ({"ui": []}, None),
    ],
)
def test_the_app_of_a_tool_is_a_ui_resource(meta: dict | None, uri: str | None) -> None:
    assert app_of(Tool(name="x", input_schema={}, meta=meta)) == uri
