"""Saved conversations: private files, a line for each message, mended after a crash."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from carrel.chat.conversation import balanced
from carrel.chat.export import as_markdown
from carrel.chat.store import ChatStore
from carrel.errors import ConfigError
from carrel.wire.client_features import SamplingMessage, ToolResultContent, ToolUseContent, find_imbalance
from carrel.wire.content import TextContent
from chat.chat_parts import chatting
from chat.scripted_model import use


async def test_a_conversation_is_saved_with_its_attachments_model_and_usage_and_goes_on(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats")
    script = [[use("shop__picture")], "A lamp."]
    async with chatting(*script, store=store, targets=["shop.py"]) as parts:
        await parts.session.say("What is @shop:note://lamp ?")
        before = parts.session.chat.conversation.messages
    saved = store.find()
    assert saved.messages == before
    assert (saved.model, saved.targets, saved.usage.input_tokens) == ("test:model", ["shop.py"], 200)
    assert saved.title == "What is @shop:note://lamp ?"
    async with chatting("Yes.", store=store) as parts:
        parts.session.resume(store.find(saved.id[-6:]))
        await parts.session.say("Still there?")
        assert len(parts.model.requests[0].messages) == len(before) + 1
    assert len(store.list()) == 1
    assert len(store.find().messages) == len(before) + 2
    assert store.find().usage.input_tokens == 300


async def test_a_conversation_is_renamed_and_deleted_with_its_media(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats")
    async with chatting("Hi.", "Bye.", store=store) as parts:
        parts.session.file.rename("Lamps")
        await parts.session.say("Hello")
        assert store.find().title == "Lamps"
        parts.session.file.rename("Red lamps")
        assert store.find().title == "Red lamps"
        parts.session.file.rename("")
        assert store.find().title == "Hello"
        parts.session.file.save_media(b"PNG", "image/png")
    store.delete(store.find())
    assert list(store.directory.iterdir()) == []


async def test_files_are_for_their_user_alone(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "data" / "chats")
    async with chatting("Hi.", store=store) as parts:
        await parts.session.say("Hello")
        name = parts.session.file.save_media(b"PNG", "image/png")
        assert parts.session.file.path is not None
        files = [parts.session.file.path, Path(str(name))]
    assert [stat.S_IMODE(os.stat(file).st_mode) for file in files] == [0o600, 0o600]
    assert stat.S_IMODE(os.stat(store.directory).st_mode) == 0o700


async def test_a_crash_loses_at_most_the_last_message_and_open_tool_uses_are_cancelled(tmp_path: Path) -> None:
    store = ChatStore(tmp_path)
    async with chatting([use("shop__find", query="x")], "Done.", store=store) as parts:
        await parts.session.say("Go")
        path = parts.session.file.path
    assert path is not None
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # the result of the tool was being written
    async with chatting("Yes.", "Yes.", store=store) as parts:
        parts.session.resume(store.find())
        await parts.session.say("Still there?")
        parts.check()
        text = parts.model.requests[0].messages[2].content[0].content[0].text  # type: ignore[index, union-attr]
        assert text == "cancelled"
    assert len(store.find().messages) == 5


async def test_a_compaction_is_what_goes_on(tmp_path: Path) -> None:
    store = ChatStore(tmp_path)
    async with chatting("one", "two", store=store) as parts:
        await parts.session.say("First")
        parts.session.chat.conversation.replace(parts.session.chat.conversation.messages[:0])
        await parts.session.say("Second")
        assert len(store.find().messages) == 2


def test_unknown_and_ambiguous_ids_are_errors(tmp_path: Path) -> None:
    store = ChatStore(tmp_path)
    with pytest.raises(ConfigError, match="there is no saved conversation"):
        store.find()
    for id in ("20260101-aaaaaa", "20260101-bbbbbb"):
        (tmp_path / f"{id}.jsonl").write_text(
            '{"message": {"role": "user", "content": {"type": "text", "text": "Hi"}}}'
        )
    with pytest.raises(ConfigError, match="several conversations begin with '2026': 20260101-aaaaaa, 20260101-bbbbbb"):
        store.find("2026")
    with pytest.raises(ConfigError, match="there is no conversation '20260101-aaaaab'; did you mean"):
        store.find("20260101-aaaaab")
    assert store.find("bbbbbb").id == "20260101-bbbbbb"


USE = ToolUseContent(id="1", name="find", input={})
RESULT = ToolResultContent(tool_use_id="1", content=[TextContent("x")])
TEXT = TextContent("Hi")


@pytest.mark.parametrize(
    ("contents", "roles"),
    [
        ([[TEXT], [USE], [RESULT], [TEXT]], "uauu"),
        ([[TEXT], [USE]], "uau"),
        ([[TEXT], [USE], [TEXT]], "uauu"),
        ([[TEXT], [USE], [RESULT, TEXT]], "uauu"),
        ([[RESULT], [TEXT]], "u"),
        ([[TEXT], [TEXT, USE, ToolUseContent(id="2", name="find", input={})], [RESULT]], "uau"),
        ([], ""),
    ],
)
def test_any_messages_are_balanced(contents: list[list[object]], roles: str) -> None:
    messages = [
        SamplingMessage(role="assistant" if USE in blocks else "user", content=blocks)  # type: ignore[arg-type]
        for blocks in contents
    ]
    found = balanced(messages)
    assert find_imbalance(found) is None
    assert "".join(message.role[0] for message in found) == roles
    assert balanced(found) == found


def test_a_conversation_is_written_as_markdown_with_fences_that_hold() -> None:
    messages = [
        SamplingMessage(role="user", content=TEXT),
        SamplingMessage(role="assistant", content=[USE]),
        SamplingMessage(role="user", content=[ToolResultContent(tool_use_id="1", content=[TextContent("```\nx")])]),
    ]
    text = as_markdown(messages, "test:model")
    assert text.startswith("# test:model\n\n## You\n\nHi\n\n## Model\n\n*Calls find:*")
    assert "````\n```\nx\n````" in text
