"""Journey of an author: an invalid answer is flagged and sent again with a change, the timeline, an old and a new
client, the doctor's report, and a session file that opens on another machine."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import expect

from studio.journeys.conftest import Visit
from studio.journeys.test_author import SERVERS, call_sum, flagged, invalid_answer
from studio.journeys.test_keyboard_and_size import faults

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_an_author_finds_a_mistake_and_hands_the_session_on(visit: Visit, tmp_path: Path) -> None:
    program, file = tmp_path / "deficient.py", tmp_path / "session.jsonl"
    program.write_text((SERVERS / "deficient.py").read_text())
    configuration = tmp_path / "mcp.json"
    entries = {"deficient": {"command": sys.executable, "args": [str(program)]}}
    configuration.write_text(json.dumps({"mcpServers": entries}))
    async with visit(str(configuration)) as me:
        await me.ready("deficient")
        await call_sum(me)
        message, preview = me.region("Message"), me.region("Preview")
        # the invalid answer is flagged, with the reason, beside its request
        await (await flagged(me)).click()
        await expect(message).to_contain_text("CallToolResult/content")
        await message.get_by_role("link", name="Its request").first.click()
        # the request is sent again with a change, and the answer is valid
        await message.get_by_role("button", name="Edit and send again").click()
        editor = message.get_by_role("textbox", name="Request as JSON")
        draft = json.loads(await editor.input_value())
        draft["params"]["arguments"]["right"] = True
        await editor.fill(json.dumps(draft))
        await message.get_by_role("button", name="Send", exact=True).click()
        await expect(message.get_by_role("region", name="The new response")).to_contain_text("valid")
        # an old client gets the invalid answer, a new client cannot connect
        await message.get_by_role("link", name="Old and new client").click()
        await preview.get_by_role("button", name="Send with both").click()
        answer = preview.get_by_role("group", name="2025-06-18: response to tools/call sum")
        await expect(answer).to_contain_text("CallToolResult/content")
        refused = preview.get_by_role("group", name="2026-07-28: response to server/discover")
        await expect(refused).to_contain_text("-32601")
        assert await faults(me) == []
        # the doctor reports the same mistake
        await me.page.goto(f"{me.origin}/doctor/deficient")
        await preview.get_by_role("button", name="Start the examination").click()
        await expect(preview).to_contain_text(re.compile(r"Score \d+ of 100"))
        await expect(preview.get_by_role("region", name="Findings")).to_contain_text("CallToolResult/content")
        # the session is one file
        await me.page.goto(f"{me.origin}/wire")
        async with me.page.expect_download() as download:
            await me.see("tabpanel", "Wire").get_by_role("button", name="Export").click()
        await (await download.value).save_as(file)
    # which opens on another machine, without the server
    program.unlink()
    async with visit(str(file)) as me:
        answers = await invalid_answer(me)
        await answers.first.click()
        await expect(me.region("Message")).to_contain_text("CallToolResult/content")
