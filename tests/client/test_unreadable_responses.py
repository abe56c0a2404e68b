"""Responses that cannot be decoded fail their request, and no other data does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.errors import InvalidMessage
from support.scripted_server import Partner, connected

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_response_that_cannot_be_decoded_fails_its_request_at_once(transport: str) -> None:
    partner = Partner()

    def answer(message: dict[str, Any]) -> None:
        deep = b"[" * 100_000 + b"]" * 100_000
        via = None if transport == "stdio" else message["id"]
        content = b'{"content":[],"structuredContent":' + deep + b"}"
        partner.say(b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (message["id"], content), via)

    partner.answers["tools/call"] = answer
    partner.stream = transport == "http"
    async with connected(partner, transport) as client, asyncio.timeout(60):
        with pytest.raises(InvalidMessage, match="The response of the server cannot be read"):
            await client.call_tool("t", timeout=None)
        await client.list_tools()


@pytest.mark.parametrize("line", [b'{"jsonrpc":"2.0","id":%d,"method":"x","params":', b'{"x":%d', b"id %d"])
async def test_data_that_is_no_response_does_not_fail_a_request(line: bytes) -> None:
    def answer(message: dict[str, Any]) -> dict[str, Any]:
        partner.say(line % message["id"])
        return {"content": []}

    partner = Partner(answers={"tools/call": answer})
    async with connected(partner) as client:
        await client.call_tool("t")
