"""Conversations over the API: saved as ``carrel chat`` saves them, with calls that only the user approves."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from carrel.chat.approvals import ApprovalStore
from carrel.chat.store import ChatStore
from carrel.chat.toolbox import text_of
from carrel.errors import TransportError
from carrel.wire.client_features import ToolResultContent, blocks_of
from chat.scripted_model import ScriptedModel, use
from chat.shop import PNG, WAV, shop
from support.studio_page import PATIENCE, Page, app_server, opened

pytestmark = pytest.mark.slow


@asynccontextmanager
async def chatting(folder: Path, *script: Any) -> AsyncIterator[tuple[Page, ScriptedModel]]:
    """Give the page of a studio with the shop, and its model."""
    model = ScriptedModel(*script)
    store, approvals = ChatStore(folder / "chats"), ApprovalStore(folder / "approvals.json")
    async with opened(app_server(shop()), model=model, store=store, approvals=approvals, targets=["shop.py"]) as page:
        await page.ready("shop")
        yield page, model


async def until(page: Page, id: str, matches: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Return a conversation, once it matches."""
    async with asyncio.timeout(PATIENCE):
        while True:
            chat: dict[str, Any] = await page.get(f"/chats/{id}")
            if matches(chat):
                return chat
            await asyncio.sleep(0.02)


def ended(chat: dict[str, Any]) -> bool:
    return not chat["running"]


def asked(chat: dict[str, Any]) -> Any:
    """The call that waits for the user; None if none does."""
    return next((call for call in calls(chat) if call["state"] == "asked"), None)


def calls(chat: dict[str, Any]) -> list[Any]:
    return [part["call"] for entry in chat["entries"] for part in entry["parts"] if part["kind"] == "call"]


def texts(chat: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (entry["role"], part["text"]) for entry in chat["entries"] for part in entry["parts"] if part["kind"] == "text"
    ]


async def say(page: Page, text: str, id: str | None = None, **more: Any) -> str:
    """Send a message, and return the id of the conversation."""
    id = id or (await page.post("/chats", {}))["id"]
    await page.post_and_wait(f"/chats/{id}/messages", {"text": text, **more})
    return id


async def test_a_conversation_is_answered_listed_renamed_found_and_deleted(tmp_path: Path) -> None:
    async with chatting(tmp_path, "A red lamp.", "A blue one.") as (page, _):
        await page.listen()
        id = await say(page, "Which lamp?")
        chat = await until(page, id, ended)
        assert texts(chat) == [("user", "Which lamp?"), ("assistant", "A red lamp.")]
        assert (chat["model"], chat["tokens"], chat["title"]) == ("test:model", 110, "Which lamp?")
        assert chat["retry"] is False
        assert (await page.event(lambda event: event["type"] == "chat"))["id"] == id
        await until(page, await say(page, "Another?"), ended)
        await page.ask("PATCH", f"/chats/{id}", {"title": "Lamps"})
        listed = (await page.get("/chats"))["chats"]
        assert {one["title"] for one in listed} == {"Lamps", "Another?"}
        assert [one["id"] for one in (await page.get("/chats", q="RED lamp"))["chats"]] == [id]
        assert await page.ask("DELETE", f"/chats/{id}") == (204, None)
        assert [one["title"] for one in (await page.get("/chats"))["chats"]] == ["Another?"]
        assert (await page.ask("GET", f"/chats/{id}"))[0] == 404
        assert len(list((tmp_path / "chats").glob("*.jsonl"))) == 1


async def test_a_conversation_goes_on_where_another_program_has_left_it(tmp_path: Path) -> None:
    async with chatting(tmp_path, "One.", "Three.") as (page, model):
        id = await say(page, "First")
        await until(page, id, ended)
        store = ChatStore(tmp_path / "chats")
        saved = store.find(id)
        assert saved.targets == ["shop.py"]
        store.open(saved).add(saved.messages[0])
        store.open(saved).add(saved.messages[1])
        assert len(texts(await page.get(f"/chats/{id}"))) == 4
        await say(page, "Third", id)
        await until(page, id, ended)
        assert len(model.requests[-1].messages) == 5
    async with chatting(tmp_path) as (page, _):
        assert len(texts(await page.get(f"/chats/{id}"))) == 6


async def test_a_call_waits_for_the_user_and_is_bound_to_its_arguments(tmp_path: Path) -> None:
    script = [[use("shop__find", "a", query="red")], [use("shop__find", "b", query="blue")], "Done."]
    async with chatting(tmp_path, *script) as (page, model):
        id = await say(page, "Find lamps")
        first = asked(await until(page, id, asked))
        assert (first["server"], first["tool"], first["arguments"]) == ("shop", "find", '{\n  "query": "red"\n}')
        assert len(model.requests) == 1
        path = f"/chats/{id}/calls/{first['approval']['id']}"
        yes = {"decision": "yes", "digest": first["approval"]["digest"]}
        assert (await page.ask("POST", path, {**yes, "digest": "0" * 64}))[0] == 409
        assert (await page.ask("POST", f"/chats/{id}/calls/a", yes))[0] == 404
        assert (await page.ask("POST", path, yes))[0] == 204
        second = asked(await until(page, id, lambda chat: asked(chat) and asked(chat)["id"] == "b"))
        assert (await page.ask("POST", path, yes))[0] == 404  # decided, and only once
        assert second["approval"]["digest"] != yes["digest"]
        path = f"/chats/{id}/calls/{second['approval']['id']}"
        assert (await page.ask("POST", path, yes))[0] == 409
        no = {"decision": "no", "digest": second["approval"]["digest"], "reason": "Red ones only."}
        assert (await page.ask("POST", path, no))[0] == 204
        chat = await until(page, id, ended)
        done, rejected = calls(chat)
        assert (done["state"], done["result"]) == ("done", "found red")
        assert rejected["state"] == "rejected"
        assert "Red ones only." in rejected["result"]
        assert "Red ones only." in str(model.requests[-1].messages[-1])
    async with chatting(tmp_path) as (page, _):  # the same from the file
        assert [call["state"] for call in calls(await page.get(f"/chats/{id}"))] == ["done", "rejected"]


async def test_always_is_remembered_where_the_command_keeps_it(tmp_path: Path) -> None:
    script = [[use("shop__find", "a", query="red")], [use("shop__find", "b", query="blue")], "Done."]
    async with chatting(tmp_path, *script) as (page, _):
        id = await say(page, "Find lamps")
        approval = asked(await until(page, id, asked))["approval"]
        decision = {"decision": "always", "digest": approval["digest"]}
        await page.post(f"/chats/{id}/calls/{approval['id']}", decision)
        chat = await until(page, id, ended)
        assert [call["state"] for call in calls(chat)] == ["done", "done"]
    assert ApprovalStore(tmp_path / "approvals.json").tools == [("shop", "find")]


async def test_an_answer_is_stopped_and_the_message_is_edited(tmp_path: Path) -> None:
    async with chatting(tmp_path, ScriptedModel.WAIT, "Edited.") as (page, model):
        id = await say(page, "Frist", attachments=[{"server": "shop", "uri": "note://lamp"}])
        await model.waiting.wait()
        assert texts(await page.get(f"/chats/{id}"))[-1] == ("assistant", "so far")
        assert (await page.ask("POST", f"/chats/{id}/messages", {"text": "Now"}))[0] == 409
        assert (await page.ask("POST", f"/chats/{id}/stop", {}))[0] == 204
        chat = await until(page, id, ended)
        assert texts(chat)[-1] == ("assistant", "so far\n\n[cancelled by the user]")
        await say(page, "First", id, replace=True)
        chat = await until(page, id, ended)
        assert texts(chat) == [("user", "First"), ("assistant", "Edited.")]
        attached = chat["entries"][0]["parts"][0]
        assert (attached["kind"], attached["key"]) == ("attachment", {"server": "shop", "uri": "note://lamp"})
        assert "A red lamp." in str(model.requests[-1].messages)


async def test_an_error_of_the_model_is_told_and_the_message_sent_again(tmp_path: Path) -> None:
    async with chatting(tmp_path, TransportError("The vendor is overloaded"), "Now.") as (page, _):
        id = await say(page, "Hello")
        chat = await until(page, id, ended)
        assert (chat["error"]["detail"], chat["retry"]) == ("The vendor is overloaded", True)
        await page.post(f"/chats/{id}/retry", {})
        chat = await until(page, id, ended)
        assert (chat["error"], chat["retry"], texts(chat)[-1]) == (None, False, ("assistant", "Now."))


async def test_a_context_is_attached_with_its_numbers(tmp_path: Path) -> None:
    async with chatting(tmp_path, "Red [1].") as (page, model):
        id = await say(page, "Which?", context={"question": "red lamp", "budget": 500, "pin": ["note://lamp"]})
        chat = await until(page, id, ended)
        attached = chat["entries"][0]["parts"][0]
        assert (attached["number"], attached["key"]["uri"], attached["text"]) == (1, "note://lamp", "Lamp")
        sent = str(model.requests[0].messages[0])
        assert 'number="1" server="shop" uri="note://lamp"' in sent


async def test_only_the_tail_of_a_conversation_is_sent_again(tmp_path: Path) -> None:
    async with chatting(tmp_path, "One.", "Two.", "Three.") as (page, _):
        id = await say(page, "First")
        await until(page, id, ended)
        await say(page, "Second", id)
        chat = await until(page, id, ended)
        assert (chat["first"], chat["stable"], len(chat["entries"])) == (0, 2, 4)
        tail = await page.get(f"/chats/{id}", first=chat["stable"], revision=chat["revision"])
        assert (tail["first"], tail["entries"]) == (2, chat["entries"][2:])
        await say(page, "Other", id, replace=True)
        chat = await until(page, id, ended)
        whole = await page.get(f"/chats/{id}", first=2, revision=tail["revision"])
        assert (whole["first"], len(whole["entries"])) == (0, 4)


async def test_bad_requests_are_refused(tmp_path: Path) -> None:
    async with chatting(tmp_path, "One.") as (page, model):
        id = (await page.post("/chats", {}))["id"]
        for path in ("/chats/..%2Fapprovals", "/chats/none", "/chats/20"):
            assert (await page.ask("GET", path))[0] == 404, path
        assert (await page.ask("POST", f"/chats/{id}/messages", {"text": "  "}))[0] == 422
        wrong = {"text": "x", "attachments": [{"server": "shop", "uri": "note://none"}]}
        assert (await page.ask("POST", f"/chats/{id}/messages", wrong))[0] == 404
        assert (await page.ask("PATCH", f"/chats/{id}", {"model": "nobody:x"}))[0] == 422
        assert (await page.get("/chats"))["chats"] == []
        assert model.requests == []


async def test_content_of_results_other_than_text_is_kept_as_the_server_has_sent_it(tmp_path: Path) -> None:
    async with chatting(tmp_path, [use("shop__mixed", "a")], "Done.") as (page, model):
        id = (await page.post("/chats", {}))["id"]
        await page.post(f"/chats/{id}/messages", {"text": "Show all."})
        waiting = asked(await until(page, id, asked))
        assert (waiting["message"], waiting["rich"]) == (None, False)
        yes = {"decision": "yes", "digest": waiting["approval"]["digest"]}
        await page.post(f"/chats/{id}/calls/{waiting['approval']['id']}", yes)
        [call] = calls(await until(page, id, ended))
        assert call["rich"]
        outcome = await page.get(f"/chats/{id}/messages/{call['message']}/results/a")
        assert outcome["arguments"] == {}
        text, image, link, note, sound = outcome["result"]["content"]
        assert outcome["result"]["structuredContent"] == {"lamps": 4}
        assert text == {"type": "text", "text": "Four parts."}
        assert (image["type"], image["mimeType"], b64decode(image["data"])) == ("image", "image/png", PNG)
        assert (link["type"], link["uri"], link["name"]) == ("resource_link", "note://lamp", "Lamp")
        assert note["resource"] == {"uri": "note://page", "mimeType": "text/markdown", "text": "A page.\n</resource>"}
        assert (sound["resource"]["mimeType"], b64decode(sound["resource"]["blob"])) == ("audio/wav", WAV)
        read = blocks_of(model.requests[-1].messages[-1])[0]
        assert isinstance(read, ToolResultContent)
        assert "[Resource of server shop: note://lamp (Lamp; text/plain)]" in text_of(read.content)
        assert "[image/png, 28 bytes]" in text_of(read.content)
        for wrong in (f"{call['message']}/results/b", "0/results/a", "99/results/a"):
            assert (await page.ask("GET", f"/chats/{id}/messages/{wrong}"))[0] == 404

    # it is in the file
    async with chatting(tmp_path) as (page, _):
        [call] = calls(await page.get(f"/chats/{id}"))
        assert (await page.get(f"/chats/{id}/messages/{call['message']}/results/a")) == outcome
