"""Providers whose lists have changed: they are learned again, and no request waits long for one that hangs."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec import Raw

from carrel.catalog import registry
from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Page, Provider, Request
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool


class Tools(Provider):
    """Provider of one tool, whose list waits for ``gate`` if that is there."""

    tool_names = None

    def __init__(self, name: str) -> None:
        self.name = self.tool = name
        self.gate: asyncio.Event | None = None

    async def list_tools(self, request: Request) -> Page[Tool]:
        if self.gate is not None:
            await self.gate.wait()
        return Page([Tool(name=self.tool, input_schema={"type": "object"})])

    async def call_tool(self, name: str, arguments: Raw, request: Request) -> CallToolResult | msgspec.Struct:
        return CallToolResult(content=[TextContent(f"{name} of {self.name}")])


async def call(catalog: Catalog, name: str) -> str:
    result = catalog.call_tool(name, Raw(b"{}"), Request())
    return (await result).content[0].text  # type: ignore


async def test_a_call_does_not_wait_for_a_provider_that_hangs_which_is_learned_when_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "PATIENCE", 0.01)
    catalog, one, two = Catalog(), Tools("one"), Tools("two")
    await catalog.add(one)
    await catalog.add(two)
    one.gate, one.tool = asyncio.Event(), "new"
    catalog.publish(one, (), {"tools_list_changed": None})
    async with asyncio.timeout(60):
        assert await call(catalog, "two") == "two of two"
        assert await call(catalog, "one") == "one of one"
        one.gate.set()
        while catalog.find_named("tool", "new") is None:
            await asyncio.sleep(0)
        assert await call(catalog, "new") == "new of one"
    await catalog.remove("one")
    await catalog.remove("two")
