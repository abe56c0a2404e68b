"""The same request by clients of two revisions: aligned messages, failures, and a revision that is fixed."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from carrel import Server
from carrel.host.config import ServerConfig
from support.studio_page import Page, app_server, opened

pytestmark = pytest.mark.slow

ASKING = Path(__file__).parents[2] / "support/servers/asking.py"
DEFICIENT = ServerConfig(name="deficient", command=sys.executable, args=(str(ASKING.parent / "deficient.py"),))


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    app = Server("good")

    @app.tool
    def greet(who: str) -> str:
        return f"Hello {who}"

    @app.resource("note://one")
    def one() -> str:
        return "one"

    fixed = msgspec.structs.replace(app_server(app), name="fixed", revision="2025-06-18")
    async with opened(app_server(app), fixed, DEFICIENT) as page:
        await page.ready("good", "fixed", "deficient")
        yield page


async def number_of(page: Page, server: str, kind: str, **what: Any) -> int:
    """Send a request, and return its number in the timeline."""
    await page.post("/operations", {"kind": kind, "server": server, **what})
    rows = (await page.get("/wire", server=server))["rows"]
    method = {"call": "tools/call", "read": "resources/read"}[kind]
    return int([row["number"] for row in rows if row["method"] == method and row["kind"] == "request"][-1])


async def compared(page: Page, number: int, old: str = "2025-11-25", new: str = "2026-07-28") -> Any:
    return await page.post_and_wait("/wire/compare", {"number": number, "old": old, "new": new})


def roles(comparison: Any) -> list[tuple[str | None, str | None]]:
    return [
        tuple(
            None if pair[side] is None else f"{pair[side]['row']['kind']} {pair[side]['row']['method']}"
            for side in ("old", "new")
        )
        for pair in comparison["pairs"]
    ]  # type: ignore[misc]


async def test_the_messages_of_both_clients_are_aligned(page: Page) -> None:
    number = await number_of(page, "good", "call", name="greet", arguments={"who": "Ada"})
    comparison = await compared(page, number)
    assert comparison["revisions"] == ["2025-11-25", "2026-07-28"]
    assert comparison["failures"] == [None, None]
    found = roles(comparison)
    assert found[0] == ("request initialize", "request server/discover")
    assert found[1] == ("response initialize", "response server/discover")
    assert ("notification notifications/initialized", None) in found
    assert found[-2:] == [("request tools/call", "request tools/call"), ("response tools/call", "response tools/call")]
    old, new = comparison["pairs"][-1]["old"], comparison["pairs"][-1]["new"]
    assert "Hello Ada" in old["text"]
    assert "Hello Ada" in new["text"]
    assert (old["row"]["revision"], new["row"]["revision"]) == ("2025-11-25", "2026-07-28")
    assert [pair["old"]["row"]["invalid"] for pair in comparison["pairs"] if pair["old"]] == [[]] * len(
        [pair for pair in comparison["pairs"] if pair["old"]]
    )
    lines = [line["kind"] + line["text"] for hunk in comparison["pairs"][-2]["hunks"] for line in hunk["lines"]]
    assert any(line.startswith("+") and "io.modelcontextprotocol/protocolVersion" in line for line in lines)


async def test_a_resource_is_read_by_two_older_clients(page: Page) -> None:
    number = await number_of(page, "good", "read", uri="note://one")
    comparison = await compared(page, number, "2024-11-05", "2025-06-18")
    assert roles(comparison)[-1] == ("response resources/read", "response resources/read")
    revisions = {pair[side]["row"]["revision"] for pair in comparison["pairs"] for side in ("old", "new") if pair[side]}
    assert revisions == {"2024-11-05", "2025-06-18"}


async def test_a_revision_that_the_server_does_not_speak_is_a_failure_of_this_client(page: Page) -> None:
    number = await number_of(page, "deficient", "call", name="sum", arguments={"a": 1, "b": 2})
    comparison = await compared(page, number, "2025-06-18", "2026-07-28")
    assert comparison["failures"][0] is None or "content" in comparison["failures"][0]
    new = [pair["new"]["row"] for pair in comparison["pairs"] if pair["new"]]
    assert [row["method"] for row in new] == ["server/discover"] * 2
    assert "-32601" in new[-1]["error"]
    assert any(
        "CallToolResult" in reason
        for pair in comparison["pairs"]
        if pair["old"]
        for reason in pair["old"]["row"]["invalid"]
    )


async def test_a_fixed_revision_is_said_before_and_refused(page: Page) -> None:
    number = await number_of(page, "fixed", "call", name="greet", arguments={"who": "Ada"})
    assert (await page.get("/wire/compare", number=number))["fixed"] == "2025-06-18"
    status, problem = await page.ask(
        "POST", "/wire/compare", {"number": number, "old": "2025-11-25", "new": "2026-07-28"}
    )
    assert status == 409
    assert "The configuration of fixed fixes the revision 2025-06-18" in problem["detail"]


async def test_what_cannot_be_compared_is_refused(page: Page) -> None:
    number = await number_of(page, "good", "call", name="greet", arguments={"who": "Ada"})
    offer = await page.get("/wire/compare", number=number)
    assert (offer["method"], offer["target"], offer["old"], offer["new"], offer["fixed"]) == (
        *("tools/call", "greet", "2025-11-25", "2026-07-28"),
        None,
    )
    answer = (await page.get(f"/wire/{number}"))["counterpart"]["number"]
    assert (await page.ask("GET", "/wire/compare", number=answer))[0] == 400
    assert (await page.ask("GET", "/wire/compare", number=99999))[0] == 404
    body = {"number": number, "old": "1999-01-01", "new": "2026-07-28"}
    status, problem = await page.ask("POST", "/wire/compare", body)
    assert (status, "no revision" in problem["detail"]) == (400, True)
