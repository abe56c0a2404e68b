"""Model for tests of the loop: it answers as its script says, and keeps the requests that it got."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from carrel.chat.model import ModelAnswer, ModelEvent, ModelRequest, TextDelta, Usage
from carrel.wire.client_features import SampledContent, ToolUseContent
from carrel.wire.content import TextContent


class ScriptedModel:
    """Answers with the next step of its script: a text, tool uses, an exception, or any content.

    A step that is a text and an exception streams the text, and raises then.
    A step ``WAIT`` streams "so far" and then waits until the request is cancelled; ``waiting`` is set meanwhile.
    """

    WAIT = object()

    def __init__(self, *script: Any, name: str = "test:model") -> None:
        self.script = list(script)
        self.requests: list[ModelRequest] = []
        self.waiting = asyncio.Event()
        self.count: Callable[[ModelRequest], int] = lambda request: 100
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, tuple):
            text, error = step
            yield TextDelta(text)
            raise error
        if step is self.WAIT:
            yield TextDelta("so far")
            self.waiting.set()
            await asyncio.Event().wait()
        if isinstance(step, str):
            for at, word in enumerate(step.split(" ")):
                yield TextDelta(f" {word}" if at else word)
            step = [TextContent(step)]
        content: Sequence[SampledContent] = step
        reason = "toolUse" if any(isinstance(block, ToolUseContent) for block in content) else "endTurn"
        usage = Usage(input_tokens=self.count(request), output_tokens=10)
        yield ModelAnswer(content=content, stop_reason=reason, model="model", usage=usage)

    async def close(self) -> None:
        """Nothing is open."""


def use(name: str, id: str = "1", /, **arguments: Any) -> ToolUseContent:
    """Return a tool use."""
    return ToolUseContent(id=id, name=name, input=arguments)
