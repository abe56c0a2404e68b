"""Sampling requests as the page shows them, and as the user has edited them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from carrel.client.handlers import Sampling
from carrel.printable import printable
from carrel.studio.api import SampledMessage, SamplingView
from carrel.studio.bodies import SamplingEdit
from carrel.wire.client_features import (
    CreateMessageResult,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
    blocks_of,
)
from carrel.wire.content import TextContent

__all__ = ["edited_answer", "edited_request", "view_of"]


def view_of(sampling: Sampling, model: str | None, answer: CreateMessageResult | None) -> SamplingView:
    """Return a request for the page, with the answer of the model if there is one."""
    blocks = [] if answer is None else _blocks_of_answer(answer)
    return SamplingView(
        messages=tuple(_message(message.role, blocks_of(message)) for message in sampling.messages),
        system_prompt=sampling.system_prompt,
        max_tokens=sampling.max_tokens,
        tools=tuple(printable(tool.name) for tool in sampling.tools or ()),
        model=model if answer is None else printable(answer.model),
        answer=None if answer is None else _text(blocks),
        calls=tuple(_described(block) for block in blocks if not isinstance(block, TextContent)),
    )


def edited_request(sampling: Sampling, edit: SamplingEdit | None) -> Sampling:
    """Return a request with the texts, the system prompt and the limit of the user."""
    if edit is None:
        return sampling
    messages = [
        SamplingMessage(role=message.role, content=_with_text(blocks_of(message), text))
        for message, text in zip(sampling.messages, edit.texts, strict=True)
    ]
    prompt = edit.system_prompt or None
    return msgspec.structs.replace(sampling, messages=messages, system_prompt=prompt, max_tokens=edit.max_tokens)


def edited_answer(answer: CreateMessageResult, edit: SamplingEdit | None) -> CreateMessageResult:
    """Return an answer with the text of the user."""
    if edit is None or edit.answer is None:
        return answer
    content = _with_text(_blocks_of_answer(answer), edit.answer)
    return msgspec.structs.replace(answer, content=content[0] if len(content) == 1 else content)


def _blocks_of_answer(answer: CreateMessageResult) -> list[Any]:
    return list(answer.content) if isinstance(answer.content, list) else [answer.content]


def _message(role: str, blocks: Sequence[Any]) -> SampledMessage:
    others = tuple(_described(block) for block in blocks if not isinstance(block, TextContent))
    return SampledMessage(role=role, text=_text(blocks), others=others)


def _text(blocks: Sequence[Any]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, TextContent))


def _described(block: Any) -> str:
    """Return a text about contents that are not text."""
    if isinstance(block, ToolUseContent):
        return printable(f"{block.name} {msgspec.json.encode(block.input).decode()}", 10_000)
    if isinstance(block, ToolResultContent):
        texts = [each.text for each in block.content if isinstance(each, TextContent)]
        return printable(" ".join(texts), 10_000)
    return printable(f"{block.mime_type}, {len(block.data):,} bytes")


def _with_text(blocks: Sequence[Any], text: str) -> list[Any]:
    """Return blocks with another text in the place of their first one."""
    if text == _text(blocks):
        return list(blocks)
    at = next((at for at, block in enumerate(blocks) if isinstance(block, TextContent)), 0)
    others = [block for block in blocks[at:] if not isinstance(block, TextContent)]
    return [*blocks[:at], *([TextContent(text)] if text or not others else []), *others]
