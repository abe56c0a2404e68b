"""Conversation as the page shows it: entries of messages and calls, also of the answer that is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from carrel.chat.approvals import ApprovalRequest
from carrel.chat.compaction import ATTACHED, is_user_message
from carrel.chat.contents import CITED, LINKED, STRUCTURED, embedded_of, size_of
from carrel.chat.conversation import CANCELLED
from carrel.chat.events import ChatEvent, Notice, Text, Thinking, ToolEnd, ToolProgress, ToolStart, ToolUseEvent
from carrel.chat.toolbox import REJECTED, text_of
from carrel.printable import printable, printable_lines
from carrel.studio.api import Key, ProgressView
from carrel.studio.chat_api import CallOutcome, ChatApproval, ChatCall, ChatEntry, ChatPart
from carrel.studio.differences import pretty
from carrel.wire.client_features import SamplingMessage, ToolResultContent, ToolUseContent, blocks_of
from carrel.wire.content import TextContent

__all__ = ["Answering", "arguments_text", "entries_of", "outcome_of", "turn_start"]

#: Characters of a result, of a line of arguments, and of the reasoning that are shown.
MAX_RESULT, MAX_LINE, MAX_THINKING = 4000, 10_000, 2000
#: Returns the server and the tool of a name that the model uses.
FindTool = Callable[[str], tuple[str, str]]


class CallResults(NamedTuple):
    """Results of the calls of a message, by the ids of the calls, and the number of the message that has them."""

    by_call: Mapping[str, ToolResultContent]
    message: int


class Answering:
    """Parts of an answer that are in no message yet: text, calls with their progress, and notices."""

    def __init__(self) -> None:
        self.text = ""
        self.thinking = ""
        self.calls: dict[str, ChatCall] = {}
        self.notices: list[tuple[int, str]] = []
        """Notices, each with the number of messages before it."""
        self.messages = 0
        """Number of messages when the last event came. With more of them, one has the text."""

    def clear(self) -> None:
        """Forget the text and the reasoning, as they are in a message now."""
        self.text = self.thinking = ""

    def take(self, event: ChatEvent, messages: int) -> None:
        """Take an event. ``messages`` is the number of messages."""
        if messages != self.messages:
            self.clear()
            self.messages = messages
        if isinstance(event, Text):
            self.text += event.text
        elif isinstance(event, Thinking):
            self.thinking = (self.thinking + event.text)[-MAX_THINKING:]
        elif isinstance(event, Notice):
            self.notices.append((messages, event.text))
        elif isinstance(event, ToolUseEvent):
            self.calls[event.id] = ChatCall(
                id=event.id,
                server=printable(event.server),
                tool=printable(event.tool),
                arguments=arguments_text(event.arguments),
                state="waiting",
                result="",
                size=0,
                progress=None,
                approval=None,
            )
        elif isinstance(event, ToolStart):
            self.change(event.id, state="running", approval=None)
        elif isinstance(event, ToolProgress):
            self.change(
                event.id, progress=ProgressView(progress=event.progress, total=event.total, message=event.message)
            )
        elif isinstance(event, ToolEnd):
            self.change(event.id, state=event.outcome, result=event.text, size=event.size, approval=None)

    def ask(self, id: str, digest: str, request: ApprovalRequest) -> None:
        """Show that a call waits for the user."""
        annotations = msgspec.to_builtins(request.tool.annotations) if request.tool.annotations is not None else {}
        approval = ChatApproval(
            id=id,
            digest=digest,
            changed=request.changed,
            description=request.tool.description,
            annotations=annotations,
        )
        self.change(request.id, state="asked", approval=approval)

    def change(self, id: str, **values: Any) -> None:
        """Change a call."""
        if id in self.calls:
            self.calls[id] = msgspec.structs.replace(self.calls[id], **values)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Return arguments as indented JSON without control characters."""
    return printable_lines(pretty(arguments), MAX_LINE)


def turn_start(messages: Sequence[SamplingMessage]) -> int:
    """Return the number of the user's last message, or 0."""
    return next((at for at in reversed(range(len(messages))) if is_user_message(messages[at])), 0)


def entries_of(messages: Sequence[SamplingMessage], answering: Answering, find: FindTool) -> list[ChatEntry]:
    """Return the entries of a conversation. Calls are shown with their results."""
    start = turn_start(messages)
    entries: list[ChatEntry] = []
    notices = list(answering.notices)
    for at, message in enumerate(messages):
        notes = [ChatPart(kind="notice", text=text) for place, text in notices if place == at]
        if notes:
            entries.append(ChatEntry(role="assistant", parts=tuple(notes)))
        following = blocks_of(messages[at + 1]) if at + 1 < len(messages) else []
        results = {block.tool_use_id: block for block in following if isinstance(block, ToolResultContent)}
        calls = answering.calls if at >= start else {}
        parts = tuple(_parts(blocks_of(message), CallResults(results, at + 1), calls, find))
        if parts:
            entries.append(ChatEntry(role=message.role, parts=parts))
    notes = [ChatPart(kind="notice", text=text) for place, text in notices if place >= len(messages)]
    parts = (*(_unfinished(answering) if answering.messages == len(messages) else ()), *notes)
    return [*entries, ChatEntry(role="assistant", parts=parts)] if parts else entries


def _unfinished(answering: Answering) -> Iterable[ChatPart]:
    if answering.thinking and not answering.text:
        yield ChatPart(kind="thinking", text=answering.thinking)
    if answering.text:
        yield ChatPart(kind="text", text=answering.text)


def _parts(
    blocks: Iterable[object], results: CallResults, calls: Mapping[str, ChatCall], find: FindTool
) -> Iterable[ChatPart]:
    for block in blocks:
        meta = getattr(block, "meta", None) or {}
        attached = meta.get(ATTACHED)
        if isinstance(attached, list) and len(attached) == 2:
            yield _attachment(block, attached, meta.get(CITED))
        elif isinstance(block, TextContent):
            yield ChatPart(kind="text", text=block.text)
        elif isinstance(block, ToolUseContent):
            yield ChatPart(kind="call", call=_call(block, results, calls, find))
        elif not isinstance(block, ToolResultContent):
            yield ChatPart(kind="media", text=printable(getattr(block, "mime_type", "")), size=size_of([block]))


def _attachment(block: object, attached: Sequence[object], cited: object) -> ChatPart:
    server, uri = map(str, attached)
    known = cited if isinstance(cited, dict) else {}
    lines, number = known.get("lines"), known.get("number")
    return ChatPart(
        kind="attachment",
        text=printable(known.get("title") or uri),
        size=size_of([block]),
        key=Key(server=server, uri=uri),
        number=number if isinstance(number, int) else None,
        lines=(int(lines[0]), int(lines[1])) if isinstance(lines, list) and len(lines) == 2 else None,
    )


def _call(use: ToolUseContent, results: CallResults, calls: Mapping[str, ChatCall], find: FindTool) -> ChatCall:
    """Return a call: from the events of the answer, or else from the messages."""
    result = results.by_call.get(use.id)
    call = calls.get(use.id) or _saved_call(use, result, find)
    if result is None:
        return call
    rich = STRUCTURED in (result.meta or {}) or any(not is_text(block) for block in result.content)
    return msgspec.structs.replace(call, message=results.message, rich=rich)


def _saved_call(use: ToolUseContent, result: ToolResultContent | None, find: FindTool) -> ChatCall:
    server, tool = find(use.name)
    text = "" if result is None else text_of(result.content)
    state: Any = "cancelled" if result is None else "error" if result.is_error else "done"
    if state == "error":
        state = "cancelled" if text == CANCELLED else "rejected" if text.startswith(REJECTED) else "error"
    return ChatCall(
        id=use.id,
        server=printable(server),
        tool=printable(tool),
        arguments=arguments_text(use.input),
        state=state,
        result=text[:MAX_RESULT],
        size=0 if result is None else size_of(result.content),
        progress=None,
        approval=None,
    )


def outcome_of(use: ToolUseContent, result: ToolResultContent) -> CallOutcome:
    """Return a call with its whole result."""
    meta = result.meta or {}
    found: dict[str, Any] = {"content": [_shown(block) for block in result.content]}
    if STRUCTURED in meta:
        found["structuredContent"] = meta[STRUCTURED]
    if result.is_error:
        found["isError"] = True
    return CallOutcome(arguments=dict(use.input), result=found)


def is_text(block: object) -> bool:
    """Return whether a block of a result is a text that the server has sent as such."""
    meta = getattr(block, "meta", None) or {}
    return isinstance(block, TextContent) and ATTACHED not in meta and LINKED not in meta


def _shown(block: Any) -> Any:
    """Return a block of a result as the server has sent it."""
    link = (block.meta or {}).get(LINKED)
    return link if isinstance(link, dict) else msgspec.to_builtins(embedded_of(block) or block)
