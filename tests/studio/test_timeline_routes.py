"""The routes of the timeline, over real servers: messages are flagged, sent again, and their headers keep secrets."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.host.config import ServerConfig
from support.studio_page import Page, app_server, opened

pytestmark = pytest.mark.slow

SERVERS = Path(__file__).parents[1] / "support/servers"
DEFICIENT = ServerConfig(name="deficient", command=sys.executable, args=(str(SERVERS / "deficient.py"),))


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    app = Server("good")

    @app.tool
    def greet(who: str) -> str:
        return f"Hello {who}"

    async with opened(DEFICIENT, app_server(app)) as page:
        await page.ready("deficient", "good")
        yield page


async def call(page: Page, server: str, name: str, **arguments: Any) -> Any:
    body = {"kind": "call", "server": server, "name": name, "arguments": arguments}
    return await page.post("/operations", body)


async def row_of_call(page: Page, server: str, **filter: str) -> dict[str, Any]:
    rows = (await page.get("/wire?method=tools/call", server=server, **filter))["rows"]
    assert rows
    return dict(rows[-1])


async def resent(page: Page, server: str, text: str, number: int) -> Any:
    return await page.post_and_wait("/wire/resend", {"server": server, "text": text, "number": number})


async def test_an_invalid_answer_is_flagged_with_its_reason(page: Page) -> None:
    await call(page, "deficient", "sum", a=1, b=2)
    row = await row_of_call(page, "deficient", only="invalid")
    assert row["direction"] == "received"
    assert row["revision"] == "2025-06-18"
    assert any("CallToolResult/content" in reason for reason in row["invalid"])
    assert row["duration"] > 0
    detail = await page.get(f"/wire/{row['number']}")
    assert json.loads(detail["text"])["result"] == {"content": 3}
    assert json.loads(detail["counterpartText"])["params"]["name"] == "sum"
    assert detail["counterpart"]["number"] == row["counterpart"]


async def test_a_request_is_sent_again_with_a_change_and_compared(page: Page) -> None:
    await call(page, "deficient", "sum", a=1, b=2)
    answer = await row_of_call(page, "deficient")
    detail = await page.get(f"/wire/{answer['counterpart']}")
    draft = json.loads(detail["draft"])
    draft["params"]["arguments"]["right"] = True
    text = json.dumps(draft, indent=4)
    result = await page.post_and_wait(
        "/wire/resend", {"server": "deficient", "text": text, "number": answer["counterpart"]}
    )
    assert result["sent"]["id"] == draft["id"]
    assert result["received"]["invalid"] == []
    assert json.loads(result["text"])["result"]["content"][0]["text"] == "3"
    lines = [line["kind"] + line["text"].strip() for hunk in result["hunks"] for line in hunk["lines"]]
    assert '-"content": 3' in lines
    assert '+"text": "3"' in lines


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{marked",
        "[]",
        '{"method":"marked"}',
        '{"id":"marked"}',
        '{"id":true,"method":"marked"}',
        '{"id":"marked","method":3}',
    ],
)
async def test_only_requests_are_sent(page: Page, text: str) -> None:
    status, problem = await page.ask("POST", "/wire/resend", {"server": "good", "text": text})
    assert status == 400
    assert "The text is not" in problem["detail"]
    assert (await page.get("/wire", q="marked"))["total"] == 0


async def test_a_request_in_the_newest_revision_is_sent_again_in_memory(page: Page) -> None:
    await call(page, "good", "greet", who="Ada")
    answer = await row_of_call(page, "good")
    assert answer["revision"] == "2026-07-28"
    assert answer["invalid"] == []
    draft = (await page.get(f"/wire/{answer['counterpart']}"))["draft"].replace("Ada", "Eve")
    result = await page.post_and_wait(
        "/wire/resend", {"server": "good", "text": draft, "number": answer["counterpart"]}
    )
    assert "Hello Eve" in result["text"]
    assert result["failure"] is None


async def test_the_page_is_told_of_news_once_it_has_looked(page: Page) -> None:
    await page.listen()
    await page.get("/wire")
    await call(page, "good", "greet", who="Ada")
    await page.event(lambda event: event["type"] == "wire")


async def test_unknown_messages_and_filters_are_refused(page: Page) -> None:
    assert (await page.ask("GET", "/wire/99999"))[0] == 404
    assert (await page.ask("GET", "/wire", only="odd"))[0] == 400
    assert (await page.ask("POST", "/wire/resend", {"server": "none", "text": "{}"}))[0] == 404


async def test_every_message_of_a_healthy_server_is_valid(page: Page) -> None:
    await call(page, "good", "greet", who="Ada")
    window = await page.get("/wire", server="good", limit=1000)
    assert window["total"] > 8
    assert [row for row in window["rows"] if row["invalid"]] == []


async def exported(page: Page, **params: str) -> bytes:
    url = f"{page.origin}/api/wire/session"
    async with page.session.get(url, headers=page.headers, params=params) as response:
        assert response.content_type == "application/jsonl"
        return await response.read()


async def opened_file(page: Page, data: bytes, type: str = "application/jsonl") -> tuple[int, str]:
    url, headers = f"{page.origin}/api/wire/session", {**page.headers, "Content-Type": type}
    async with page.session.post(url, data=data, headers=headers, params={"name": "s.jsonl"}) as response:
        return response.status, await response.text()


async def test_a_session_is_exported_and_opened_beside_the_servers(page: Page) -> None:
    await call(page, "deficient", "sum", a=1, b=2)
    await page.get("/wire")
    data = await exported(page, server="deficient")
    assert {json.loads(line)["server"] for line in data.splitlines()} == {"deficient"}
    await page.listen()
    assert await opened_file(page, data) == (204, "")
    await page.event(lambda event: event["type"] == "reset")
    assert (await page.get("/state"))["recording"] == "s.jsonl"
    row = await row_of_call(page, "deficient", only="invalid")
    assert any("CallToolResult/content" in reason for reason in row["invalid"])
    assert (await page.get(f"/wire/{row['counterpart']}"))["draft"] is None
    assert [json.loads(line)["message"] for line in (await exported(page)).splitlines()] == [
        json.loads(line)["message"] for line in data.splitlines()
    ]
    await page.ask("DELETE", "/wire/session")
    assert (await page.get("/state"))["recording"] is None
    assert (await page.get("/wire"))["servers"] == ["deficient", "good"]


@pytest.mark.parametrize(
    ("data", "type", "status", "reason"),
    [
        (b"{", "application/jsonl", 422, "line 1 is damaged"),
        (b"", "application/jsonl", 422, "has no message"),
        (b"{}", "application/json", 415, "application/jsonl"),
    ],
)
async def test_a_file_that_is_no_session_is_refused(
    page: Page, data: bytes, type: str, status: int, reason: str
) -> None:
    found, text = await opened_file(page, data, type)
    assert found == status
    assert reason in text
    assert (await page.get("/state"))["recording"] is None
