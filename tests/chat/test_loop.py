"""The tool loop: rounds, parallel calls, cancellation, errors of the model, and room in the context window."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from carrel import Server
from carrel.chat.events import Media, Notice, Text, TurnEnd
from carrel.chat.loop import ChatOptions
from carrel.chat.model import Usage
from carrel.chat.store import ChatStore
from carrel.chat.tokens import tokens_of
from carrel.errors import ConfigError, HTTPStatusError, TransportError
from carrel.wire.client_features import ToolResultContent, ToolUseContent, blocks_of
from carrel.wire.content import ImageContent, TextContent
from chat.chat_parts import chatting
from chat.scripted_model import ScriptedModel, use
from chat.shop import PNG, other, shop


def results(message: object) -> list[str]:
    return [block.content[0].text for block in blocks_of(message)]  # type: ignore[union-attr, arg-type]


async def test_text_is_shown_as_it_comes_and_the_answer_is_whole() -> None:
    async with chatting("Hello dear user") as parts:
        answer = await parts.session.say("Hi")
    assert [event.text for event in parts.events if isinstance(event, Text)] == ["Hello", " dear", " user"]
    assert answer == TurnEnd(
        text="Hello dear user", stop_reason="endTurn", model="model", usage=Usage(input_tokens=100, output_tokens=10)
    )
    assert [message.role for message in parts.session.chat.conversation.messages] == ["user", "assistant"]


async def test_the_model_goes_on_with_the_results_of_its_tools_and_usage_is_summed() -> None:
    async with chatting([TextContent("I look."), use("shop__find", query="lamp")], "Done.") as parts:
        answer = await parts.session.say("Find a lamp")
        assert answer.text == "Done."
        assert answer.usage == Usage(input_tokens=200, output_tokens=20)
        assert results(parts.model.requests[1].messages[-1]) == ["found lamp"]
        parts.check()


async def test_tools_of_all_servers_have_names_with_their_server() -> None:
    async with chatting("ok", apps={"shop": shop(), "other": other()}) as parts:
        await parts.session.say("Hi")
        names = {tool.name for tool in parts.model.requests[0].tools}
        assert {"shop__find", "other__find", "read_resource", "list_resources"} <= names
        assert "Prices are in EUR." in (parts.model.requests[0].system_prompt or "")


async def test_calls_with_equal_ids_get_unique_ones() -> None:
    calls = [
        use("shop__find", "call_0", query="a"),
        use("shop__find", "call_0", query="b"),
        use("shop__find", "", query="c"),
    ]
    async with chatting(calls, [use("shop__find", "call_0", query="d")], "Done.") as parts:
        await parts.session.say("Go")
        messages = parts.session.chat.conversation.messages
        made = [block for each in messages for block in blocks_of(each) if isinstance(block, ToolUseContent)]
        assert [block.id for block in made] == ["call_0", "call_0-2", "call-2", "call_0-3"]
        answered = [block for each in messages for block in blocks_of(each) if isinstance(block, ToolResultContent)]
        assert [block.tool_use_id for block in answered] == [block.id for block in made]
        assert [text for each in messages[2::2] for text in results(each) if "found" in text] == [
            *("found a", "found b", "found c", "found d")
        ]
        parts.check()


async def test_calls_run_at_the_same_time_and_their_results_are_in_order() -> None:
    app = shop()
    calls = [use("shop__slow", "1", name="a"), use("shop__find", "2", query="b"), use("shop__slow", "3", name="c")]
    async with chatting(calls, "Done.", apps={"shop": app}) as parts:
        answering = asyncio.create_task(parts.session.say("Go"))
        await app.started.acquire()
        await app.started.acquire()  # the second one has begun before the first has ended
        app.released.set()
        await answering
        assert results(parts.model.requests[1].messages[-1]) == ["slow a", "found b", "slow c"]


async def test_a_tool_that_fails_is_a_result_that_the_model_reads() -> None:
    calls = [use("shop__fail", "1"), use("shop__nothing", "2"), use("shop__find", "3")]
    async with chatting(calls, "I see.") as parts:
        await parts.session.say("Go")
        blocks = blocks_of(parts.model.requests[1].messages[-1])
        assert [block.is_error for block in blocks] == [True, True, True]  # type: ignore[union-attr]
        assert [end.outcome for end in parts.ends()] == ["error"] * 3
        assert "did you mean" in results(parts.model.requests[1].messages[-1])[1]
        parts.check()


async def test_rounds_have_a_maximum() -> None:
    script = [[use("shop__find", str(number), query="x")] for number in range(3)]
    async with chatting(*script, options=ChatOptions(max_rounds=3)) as parts:
        answer = await parts.session.say("Go")
        assert answer.stop_reason == "maxRounds"
        assert parts.model.script == []
        assert any("Stopped after 3 rounds" in event.text for event in parts.events if isinstance(event, Notice))
        parts.check()


async def test_cancelling_while_tools_run_leaves_what_is_done_and_cancels_the_others() -> None:
    app = shop()
    calls = [use("shop__find", "1", query="b"), use("shop__slow", "2", name="a")]
    async with chatting(calls, "Go on.", apps={"shop": app}) as parts:
        answering = asyncio.create_task(parts.session.say("Go"))
        await app.started.acquire()
        while len(parts.ends()) < 1:  # the quick one; its result is on its way in memory
            await asyncio.sleep(0)
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        messages = parts.session.chat.conversation.messages
        assert results(messages[-1]) == ["found b", "cancelled"]
        assert sorted(end.outcome for end in parts.ends()) == ["cancelled", "done"]
        parts.check()
        assert (await parts.session.say("What now?")).text == "Go on."


async def test_cancelling_an_answer_keeps_what_was_said() -> None:
    async with chatting(ScriptedModel.WAIT, "Yes.") as parts:
        answering = asyncio.create_task(parts.session.say("Go"))
        await parts.model.waiting.wait()
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        last = blocks_of(parts.session.chat.conversation.messages[-1])[0]
        assert isinstance(last, TextContent)
        assert last.text == "so far\n\n[cancelled by the user]"
        assert (await parts.session.say("Again")).text == "Yes."


async def test_after_an_error_of_the_model_the_same_question_can_be_asked_again() -> None:
    async with chatting(TransportError("overloaded"), "Now.") as parts:
        with pytest.raises(TransportError, match="overloaded"):
            await parts.session.say("Hi")
        assert (await parts.session.retry()).text == "Now."
        with pytest.raises(ConfigError, match="nothing to retry"):
            await parts.session.retry()
        assert len(parts.session.chat.conversation.messages) == 2


async def test_a_question_is_taken_back_with_all_that_came_of_it() -> None:
    async with chatting("one", [use("shop__find", query="x")], TransportError("refused"), "two") as parts:
        await parts.session.say("First")
        with pytest.raises(TransportError):
            await parts.session.say("Second")
        parts.session.undo()
        assert len(parts.session.chat.conversation.messages) == 2
        assert (await parts.session.say("Third")).text == "two"
        assert len(parts.model.requests[-1].messages) == 3
        parts.session.undo()
        parts.session.undo()
        with pytest.raises(ConfigError, match="there is no message to undo"):
            parts.session.undo()


async def test_a_huge_result_is_cut_with_a_note_and_both_ends_of_it_stay() -> None:
    async with chatting([use("shop__huge", size=1_000_000)], "ok") as parts:
        await parts.session.say("Go")
        (text,) = results(parts.model.requests[1].messages[-1])
        assert len(text) < 101_000
        assert "900,000 of 1,000,000 characters were left out here" in text
        assert text.startswith("xxx")
        assert text.endswith("xxx")


async def test_images_of_tools_reach_the_model_and_those_of_the_model_are_saved() -> None:
    from carrel.chat.events import Media

    drawn = ImageContent(PNG, "image/png")
    async with chatting([use("shop__picture")], [TextContent("Here: "), drawn]) as parts:
        answer = await parts.session.say("Draw")
        (result,) = blocks_of(parts.model.requests[1].messages[-1])
        assert isinstance(result, ToolResultContent)
        assert isinstance(result.content[0], ImageContent)
        assert answer.text == "Here: "
        assert Media(mime_type="image/png", size=len(PNG), file=None) in parts.events


async def test_near_the_end_of_the_window_the_oldest_tool_results_go_first_and_it_is_said() -> None:
    script = [[use("shop__huge", "1", size=60_000)], "one", [use("shop__find", "2", query="x")], "two", "three"]
    async with chatting(*script, options=ChatOptions(window=30_000)) as parts:
        parts.model.count = lambda request: tokens_of(request.messages)
        await parts.session.say("First question")
        await parts.session.say("Second question")
        await parts.session.say("Third question " + "words " * 1500)
        last = parts.model.requests[-1].messages
        assert "60,000 characters was dropped" in results(last[2])[0]
        assert any("context window is nearly full: dropped 1 old tool result" in str(event) for event in parts.events)
        assert blocks_of(last[0])[0].text == "First question"  # type: ignore[union-attr]
        assert isinstance(blocks_of(last[1])[0], ToolUseContent)
        parts.check()


async def test_another_model_goes_on_with_the_conversation() -> None:
    async with chatting("one") as parts:
        parts.models["test:second"] = ScriptedModel("two", name="test:second")
        await parts.session.say("Hi")
        await parts.session.use_model("test:second")
        assert (await parts.session.say("And?")).text == "two"
        assert len(parts.models["test:second"].requests[0].messages) == 3


async def test_tools_that_are_taken_away_are_not_offered() -> None:
    async with chatting("ok", "ok") as parts:
        parts.session.toolbox.off.add("shop:find")
        await parts.session.say("Hi")
        assert "shop__find" not in {tool.name for tool in parts.model.requests[0].tools}
        parts.session.toolbox.off = {"shop"}
        await parts.session.say("Hi")
        assert {tool.name for tool in parts.model.requests[1].tools} == {"read_resource", "list_resources"}


async def test_tools_for_apps_only_are_not_offered() -> None:
    app = Server("shop")

    @app.tool(meta={"ui": {"visibility": ["app"]}})
    def refresh() -> str:
        return "fresh"

    @app.tool(meta={"ui": {"visibility": ["model", "app"]}})
    def find() -> str:
        return "found"

    async with chatting("ok", apps={"shop": app}) as parts:
        assert {one.item.name for one in await parts.session.toolbox.host.list_tools()} == {"refresh", "find"}
        await parts.session.say("Hi")
        names = {tool.name for tool in parts.model.requests[0].tools}
        assert names == {"shop__find", "read_resource", "list_resources"}


async def test_the_model_reads_and_lists_resources_by_itself_once_it_may() -> None:
    calls = [
        use("list_resources", "1", query="lamp"),
        use("read_resource", "2", server="shop", uri="note://lamp"),
        use("read_resource", "3", server="shpo", uri="note://lamp"),
        use("read_resource", "4", server="shop", uri="note://none"),
    ]
    async with chatting(calls, "ok") as parts:
        await parts.session.say("Go")
        listed, read, unknown, missing = results(parts.model.requests[1].messages[-1])
        assert '"uri":"note://lamp"' in listed
        assert "A red lamp." in read
        assert "did you mean 'shop'" in unknown
        assert "not found" in missing.lower()
        assert [(one.server, one.tool.name) for one in parts.asked] == [("shop", "@read_resource")] * 2


async def test_without_resource_tools_the_model_has_none() -> None:
    async with chatting([use("read_resource", server="shop", uri="note://lamp")], "ok", own_tools=False) as parts:
        await parts.session.say("Go")
        assert "read_resource" not in {tool.name for tool in parts.model.requests[0].tools}
        assert "There is no tool 'read_resource'" in results(parts.model.requests[1].messages[-1])[0]


async def test_an_error_that_is_not_about_an_image_leaves_the_images_in_the_conversation() -> None:
    refused = [HTTPStatusError(400, "the credit is used up") for _ in range(2)]
    async with chatting([use("shop__picture")], *refused, "I see.") as parts:
        with pytest.raises(HTTPStatusError, match="the credit is used up"):
            await parts.session.say("Show it")
        assert len(parts.model.requests) == 3
        assert (await parts.session.retry()).text == "I see."
        (result,) = blocks_of(parts.model.requests[-1].messages[-1])
        assert isinstance(result, ToolResultContent)
        assert result.content == [ImageContent(PNG, "image/png")]


async def test_media_since_the_last_answer_are_left_out_first_and_then_all() -> None:
    refused = [HTTPStatusError(400, "no images") for _ in range(2)]
    script = [[use("shop__picture")], "Old.", [use("shop__picture", "2")], *refused, "New."]
    async with chatting(*script) as parts:
        await parts.session.say("First")
        assert (await parts.session.say("Second")).text == "New."
        counts = [str(request.messages).count("left out") for request in parts.model.requests]
        assert counts == [0, 0, 0, 0, 1, 2]
        assert str(parts.session.chat.conversation.messages).count("ImageContent") == 0
        parts.check()


async def test_an_image_of_a_tool_is_saved_beside_the_conversation(tmp_path: Path) -> None:
    async with chatting([use("shop__picture")], "I see.", store=ChatStore(tmp_path)) as parts:
        await parts.session.say("Show it")
        (media,) = [event for event in parts.events if isinstance(event, Media)]
        assert media.file is not None
        assert Path(media.file).read_bytes() == PNG
    async with chatting([use("shop__picture")], "I see.") as parts:
        await parts.session.say("Show it")
        assert not [event for event in parts.events if isinstance(event, Media)]


async def test_a_request_whose_answer_has_begun_is_not_repeated_as_its_text_would_show_twice() -> None:
    broken = ("It shows a lamp", HTTPStatusError(400, "no images"))
    async with chatting([use("shop__picture")], broken, "It shows a lamp, red.") as parts:
        with pytest.raises(HTTPStatusError, match="no images"):
            await parts.session.say("Show it")
        assert [event.text for event in parts.events if isinstance(event, Text)] == ["It shows a lamp"]
        assert (await parts.session.retry()).text == "It shows a lamp, red."


async def test_a_request_without_media_is_not_repeated_after_an_error() -> None:
    async with chatting(HTTPStatusError(400, "the prompt is too long")) as parts:
        with pytest.raises(HTTPStatusError, match="too long"):
            await parts.session.say("Hi")
        assert len(parts.model.requests) == 1
