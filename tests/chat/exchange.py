"""Exchanges with a model for the tests: asks for an answer, and gathers the events."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from PIL import Image

from carrel.chat.model import Model, ModelAnswer, ModelRequest, TextDelta, ThinkingDelta
from carrel.chat.models.open import open_model
from carrel.wire.client_features import SamplingContent, SamplingMessage, ToolResultContent, ToolUseContent
from carrel.wire.content import TextContent
from carrel.wire.tools import Tool
from chat.endpoints import Endpoint

ADD = Tool(
    name="add",
    description="Adds numbers.",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)
NOW = Tool(name="now", input_schema={"type": "object"})
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"


class Exchange(NamedTuple):
    """Events of one answer."""

    text: str
    thinking: str
    completion: ModelAnswer

    @property
    def message(self) -> SamplingMessage:
        return SamplingMessage(role="assistant", content=list(self.completion.content))

    @property
    def uses(self) -> list[ToolUseContent]:
        return [block for block in self.completion.content if isinstance(block, ToolUseContent)]


def user(*blocks: SamplingContent | str) -> SamplingMessage:
    return SamplingMessage(
        role="user", content=[TextContent(text=block) if isinstance(block, str) else block for block in blocks]
    )


def results(exchange: Exchange, *texts: str) -> SamplingMessage:
    """Return the results of the tool uses of an answer."""
    return user(
        *(
            ToolResultContent(tool_use_id=use.id, content=[TextContent(text=text)])
            for use, text in zip(exchange.uses, texts, strict=True)
        )
    )


async def ask(model: Model, messages: Sequence[SamplingMessage] | str, **options: Any) -> Exchange:
    if isinstance(messages, str):
        messages = [user(messages)]
    texts: list[str] = []
    thoughts: list[str] = []
    completion = None
    async for event in model.stream(ModelRequest(messages=messages, **options)):
        assert completion is None, "an event after the completion"
        if isinstance(event, TextDelta):
            texts.append(event.text)
        elif isinstance(event, ThinkingDelta):
            thoughts.append(event.text)
        else:
            completion = event
    assert completion is not None
    said = "".join(block.text for block in completion.content if isinstance(block, TextContent))
    assert said == "".join(texts), "the events and the completion differ"
    return Exchange("".join(texts), "".join(thoughts), completion)


@contextlib.asynccontextmanager
async def opened(endpoint: Endpoint, name: str | None = None, **options: Any) -> AsyncIterator[Model]:
    """Open a model of an endpoint, without further tries of the SDK."""
    model = await open_model(name, environment=endpoint.environment, **{"retries": 0, **options})
    try:
        yield model
    finally:
        await model.close()


async def left(endpoint: Endpoint) -> bool:
    """Wait until the client of an answer that holds has closed the connection."""
    return await asyncio.to_thread(endpoint.left.wait, 10)


def png(size: tuple[int, int] = (2, 2)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, "PNG")
    return file.getvalue()
