"""The doctor in the studio: it starts on request, tells each check, and gives the report of ``carrel doctor``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from carrel import Server
from carrel.host.config import ServerConfig
from support.studio_page import Page, app_server, opened

pytestmark = pytest.mark.slow

SERVERS = Path(__file__).parents[1] / "support/servers"
DEFICIENT = ServerConfig(name="deficient", command=sys.executable, args=(str(SERVERS / "deficient.py"),))
CHECKS = ["connecting", "pings", "lists", "resources", "tools", "errors", "subscriptions"]


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with opened(DEFICIENT, app_server(Server("good"))) as page:
        await page.ready("deficient", "good")
        yield page


async def finished(page: Page, server: str, **options: bool) -> dict[str, object]:
    await page.listen()
    assert (await page.get(f"/doctor/{server}"))["state"] == "none"
    assert (await page.post(f"/doctor/{server}", options))["state"] == "running"
    seen = 0
    while True:
        await page.event(lambda event, seen=seen: event["type"] == "doctor" and event["seq"] > seen)  # type: ignore[misc]
        seen = max(event["seq"] for event in page.events)
        view = await page.get(f"/doctor/{server}")
        if view["state"] != "running":
            return dict(view)


async def test_the_report_of_a_server_with_mistakes(page: Page) -> None:
    view = await finished(page, "deficient")
    assert view["state"] == "done", view
    assert view["done"] == CHECKS
    assert view["current"] is None
    assert view["revision"] == "2025-06-18"
    findings = {each["rule"]: each for each in view["findings"]}  # type: ignore[attr-defined]
    assert any("CallToolResult/content" in location for location in findings["schema"]["locations"])
    assert findings["schema"]["severity"] == "error"
    assert isinstance(view["score"], int)
    assert view["score"] < 100


async def test_the_examination_of_a_server_in_this_process_with_malformed_messages(page: Page) -> None:
    view = await finished(page, "good", hostile=True)
    assert view["state"] == "done", view
    assert view["done"] == [*CHECKS, "hostile input"]
    assert view["score"] == 100


async def test_an_examination_is_cancelled(page: Page) -> None:
    await page.listen()
    await page.post("/doctor/deficient", {})
    assert (await page.ask("DELETE", "/doctor/deficient"))[0] == 204
    while (await page.get("/doctor/deficient"))["state"] == "running":
        await asyncio.sleep(0.05)
    assert (await page.get("/doctor/deficient"))["state"] in ("cancelled", "done")


async def test_unknown_servers_are_not_examined(page: Page) -> None:
    assert (await page.ask("GET", "/doctor/none"))[0] == 404
    assert (await page.ask("POST", "/doctor/none", {}))[0] == 404
