"""Content blocks and tool results in the formats of vendors."""

from __future__ import annotations

from base64 import b64encode

from carrel.vendors import anthropic, gemini, openai_chat, openai_responses
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from carrel.wire.resources import BlobResourceContents, TextResourceContents

PNG = ImageContent(b"png", "image/png")
WAV = AudioContent(b"wav", "audio/x-wav")
PDF = BlobResourceContents("file:///a/report.pdf", b"%PDF", "application/pdf")
NOTE = TextResourceContents("note://1", "Buy a lamp", "text/plain")
ENCODED = b64encode(b"png").decode()


def result(*blocks: ContentBlock, **fields: object) -> ToolResultContent:
    return ToolResultContent(tool_use_id="c1", content=list(blocks), **fields)  # type: ignore[arg-type]


def test_anthropic_gets_text_images_and_documents() -> None:
    assert anthropic.content([TextContent("hello"), TextContent(" "), PNG, PDF, NOTE]) == [
        {"type": "text", "text": "hello"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
            "title": "file:///a/report.pdf",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Buy a lamp"},
            "title": "note://1",
        },
    ]


def test_what_a_model_cannot_take_is_described() -> None:
    (block,) = anthropic.content([WAV])
    assert block == {"type": "text", "text": "[audio/wav, 3 bytes: cannot be shown to this model]"}
    (part,) = gemini.content([BlobResourceContents("x:1", b"\0", None)])
    assert part == {"text": "[application/octet-stream, x:1 1 bytes: cannot be shown to this model]"}


def test_a_blob_of_a_text_format_is_text() -> None:
    blob = BlobResourceContents("x:1", b'{"a": 1}', "application/json; charset=utf-8")
    assert openai_chat.content([blob]) == [{"type": "text", "text": 'Resource x:1:\n{"a": 1}'}]


def test_a_link_tells_the_model_its_uri() -> None:
    link = ResourceLink(uri="note://1", name="one", title="One", description="The first", mime_type="text/plain")
    assert openai_responses.content([link]) == [
        {"type": "input_text", "text": "Resource note://1 (text/plain): One The first"}
    ]


def test_structured_content_is_sent_where_there_is_no_text() -> None:
    assert openai_responses.tool_result(result(structured_content={"n": 1}))["output"] == '{"n":1}'
    assert openai_responses.tool_result(result(structured_content=None))["output"] == "null"
    assert openai_responses.tool_result(result(TextContent("one"), structured_content={"n": 1}))["output"] == "one"


def test_an_error_of_anthropic_has_only_text() -> None:
    found = anthropic.tool_result(result(TextContent("no such lamp"), PNG, is_error=True))
    assert found["is_error"] is True
    assert [block["type"] for block in found["content"]] == ["text", "text"]


def test_an_error_is_told_to_models_of_openai_in_words() -> None:
    failed = result(TextContent("no such lamp"), is_error=True)
    assert openai_responses.tool_result(failed)["output"] == "Error: no such lamp"
    assert openai_chat.tool_results([failed])[0]["content"] == "Error: no such lamp"
    assert openai_chat.tool_results([result(is_error=True)])[0]["content"].startswith("Error: ")


def test_messages_of_tools_in_chat_completions_follow_each_other_and_images_come_after() -> None:
    image = result(TextContent("the lamp"), PNG, EmbeddedResource(PDF))
    text = ToolResultContent(tool_use_id="c2", content=[TextContent("done")])
    first, second, shown = openai_chat.tool_results([image, text])
    assert first["content"].startswith("the lamp\n")
    assert second == {"role": "tool", "tool_call_id": "c2", "content": "done"}
    assert shown["role"] == "user"
    assert [part["type"] for part in shown["content"]] == ["text", "image_url", "file"]
    assert shown["content"][2]["file"] == {
        "filename": "report.pdf",
        "file_data": "data:application/pdf;base64,JVBERg==",
    }


def test_audio_goes_to_chat_completions_and_gemini() -> None:
    (part,) = openai_chat.content([WAV])
    assert part["input_audio"] == {"data": b64encode(b"wav").decode(), "format": "wav"}
    assert gemini.content([WAV]) == [{"inlineData": {"mimeType": "audio/wav", "data": b"wav"}}]


def test_gemini_gets_a_response_for_each_call_and_then_the_images() -> None:
    failed = ToolResultContent(tool_use_id="#1", content=[TextContent("no")], is_error=True)
    (content,) = gemini.tool_results([result(PNG), failed], {"c1": "find", "#1": "buy"})
    assert content["role"] == "user"
    assert content["parts"][:2] == [
        {"functionResponse": {"id": "c1", "name": "find", "response": {"output": ""}}},
        {"functionResponse": {"name": "buy", "response": {"error": "no"}}},
    ]
    assert content["parts"][3] == {"inlineData": {"mimeType": "image/png", "data": b"png"}}


def test_without_results_there_is_nothing_to_send() -> None:
    assert anthropic.tool_results([]) == openai_chat.tool_results([]) == gemini.tool_results([], {}) == []
