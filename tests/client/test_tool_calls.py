"""Tools: what they say of themselves is no permission, and schemas are checked without help from elsewhere."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from carrel.errors import InvalidMessage, TransportError
from support.scripted_server import Partner, connected
from support.server_connection import JUNE, LATEST, NOVEMBER

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


NETWORK = {"$ref": "http://127.0.0.1:{port}/schema.json"}


def listed(output: Any = None, **fields: Any) -> dict[str, Any]:
    schema = {} if output is None else {"outputSchema": output}
    return {"tools": [{"name": "t", "inputSchema": {"type": "object"}, **schema, **fields}]}


async def result_of(output: Any, content: Any, revision: str = LATEST, **fields: Any) -> Any:
    """Call a tool that has this output schema and gives this back."""
    structured = {} if content is None else {"structuredContent": content}
    partner = Partner(revision, {"tools/list": listed(output), "tools/call": {"content": [], **structured, **fields}})
    async with connected(partner) as client:
        _ = await client.list_tools()
        return (await client.call_tool("t")).structured_content


async def test_annotations_of_a_tool_change_no_behaviour() -> None:
    harmless = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False, "openWorldHint": False}
    partner = Partner()
    calls = 0

    def hang_up(message: dict[str, Any]) -> None:
        nonlocal calls
        calls += 1
        partner.hang_up()  # type: ignore[attr-defined]

    partner.answers = {"tools/list": listed(annotations=harmless), "tools/call": hang_up}
    async with connected(partner) as client:
        (tool,) = await client.list_tools()
        assert tool.annotations
        with pytest.raises(TransportError):
            await client.call_tool("t")
        assert calls == 1, "it may have changed something, whatever it says"


@pytest.mark.parametrize("revision", [JUNE, NOVEMBER, LATEST])
async def test_a_result_is_checked_against_the_output_schema(revision: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert await result_of(schema, {"n": 1}, revision) == {"n": 1}
    for wrong in ({"n": "1"}, {}, None):
        with pytest.raises(InvalidMessage):
            await result_of(schema, wrong, revision)
    assert await result_of(schema, {"n": "1"}, revision, isError=True) == {"n": "1"}


@pytest.mark.parametrize(
    ("dialect", "fits"),
    [
        (None, False),
        ("https://json-schema.org/draft/2020-12/schema", False),
        ("http://json-schema.org/draft-07/schema#", True),
    ],
)
async def test_a_schema_is_one_of_2020_12_unless_it_names_another_dialect(dialect: str | None, fits: bool) -> None:
    schema = {"prefixItems": [{"type": "integer"}], "items": False} | ({} if dialect is None else {"$schema": dialect})
    schema = schema if not fits else {"$schema": dialect, "items": [{"type": "string"}]}  # a tuple, in draft 7
    if fits:
        assert await result_of(schema, ["x", 1]) == ["x", 1]
        with pytest.raises(InvalidMessage):
            await result_of(schema, [1])
    else:
        assert await result_of(schema, [1]) == [1]
        with pytest.raises(InvalidMessage):
            await result_of(schema, [1, 2])


async def test_a_dialect_that_is_not_supported_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "carrel.client"):
        assert await result_of({"$schema": "https://example.com/my-dialect", "type": "string"}, 5) == 5
    assert "https://example.com/my-dialect" in caplog.text


async def test_a_reference_to_the_network_is_never_followed(caplog: pytest.LogCaptureFixture) -> None:
    visits = 0

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.close()

    web = await asyncio.start_server(visit, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}/schema.json"
    with caplog.at_level(logging.WARNING, "carrel.client"):
        for schema in ({"$ref": url}, {"properties": {"a": {"$ref": url}}}, {"$schema": url}, {"$dynamicRef": url}):
            await result_of(schema, {"a": 1})
            partner = Partner(answers={"tools/list": listed(inputSchema=schema)})
            async with connected(partner, "http") as client:
                _ = await client.list_tools()
                await client.call_tool("t", {"a": 1})
    web.close()
    await web.wait_closed()
    assert visits == 0
    assert url in caplog.text, "it is said that the schema is not used, and why"
