"""A page on another port of 127.0.0.1 attacks the studio, which is open in the same browser: it gets nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Response, expect

from studio.journeys.conftest import Visit
from support.web_site import running_site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SERVER = """\
from pathlib import Path

from carrel import Server

app = Server("writer")
app.resources.add("memo://secret", "the secret", name="secret", mime_type="text/plain")


@app.tool
def write() -> str:
    Path(__file__).with_name("written").write_text("x")
    return "done"
"""
#: Tries every way that a page has to another origin, and notes what it got of each.
PAGE = Path(__file__).with_name("attack.html").read_text(encoding="utf-8")


async def test_another_port_reads_calls_frames_and_opens_nothing(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "writer.py").write_text(SERVER)
    async with visit(str(tmp_path / "writer.py")) as me, running_site() as site:
        await me.ready("writer")
        site.put("/attack", PAGE.replace("[]", json.dumps(sorted(me.origins)), 1))
        attacker = await me.page.context.new_page()
        responses: list[Response] = []
        me.page.context.on("response", lambda response: responses.append(response))
        await attacker.goto(f"{site.origin}/attack")
        await expect(attacker).to_have_title("done")
        got = await attacker.evaluate("got")
        assert len(got) == 2 * 5 * 14
        assert {name: value for name, value in got.items() if value != "nothing"} == {}
        # a new window with the page is out of reach, too
        async with me.page.context.expect_page() as opening:
            await attacker.get_by_role("button", name="Play").click()
        window = await opening.value
        await window.wait_for_load_state()
        assert await attacker.evaluate(
            "(() => { try { return opened.document.body.textContent; } catch { return 'nothing'; } })()"
        ) in ("nothing", "")

        own = (site.origin, *(f"{origin}/icon.svg" for origin in me.origins))  # anyone may have the icon of the page
        asked = [each for each in responses if each.request.frame.page != me.page and not each.url.startswith(own)]
        assert len(asked) > 30
        assert {each.status for each in asked} <= {403, 404, 405, 421}, [
            each.url for each in asked if each.status < 400
        ]
        assert not (tmp_path / "written").exists()
        # the page itself is as it was, and can do all of this
        await expect(me.see("treeitem", "secret")).to_be_visible()
        await me.see("tab", "Tools").click()
        await me.see("row", re.compile("write")).click()
        await me.region("Preview").get_by_role("button", name="Call").click()
        await expect(me.region("Preview").get_by_role("region", name="Result")).to_contain_text("done")
        assert (tmp_path / "written").exists()


async def test_a_framed_copied_or_linked_page_has_no_token(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "writer.py").write_text(SERVER)
    async with visit(str(tmp_path / "writer.py")) as me, running_site() as site:
        await me.ready("writer")
        token = me.link.partition("token=")[2]
        assert token not in me.page.url
        assert token not in await me.page.content()
        assert await me.page.context.cookies() == []
        assert token not in await me.page.evaluate("JSON.stringify(localStorage)")
        # what the page opens elsewhere learns neither the address nor the window that opened it
        site.put("/linked", "<!doctype html><title>linked</title>")
        linked = await me.page.context.new_page()
        await linked.goto(f"{site.origin}/linked")
        assert await linked.evaluate("document.referrer") == ""
        await linked.goto(f"{me.origin}/browse")
        await expect(linked.get_by_text("Open the link that was printed")).to_be_visible()
