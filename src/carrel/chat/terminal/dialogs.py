"""Dialogs with the user: approval of tool calls, and review of sampling requests and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any, Protocol

import msgspec

from carrel.chat.approvals import ApprovalRequest, Decision
from carrel.chat.events import ChatEvent
from carrel.chat.terminal.keyboard import Keyboard
from carrel.chat.terminal.text import clean, clean_line, first_lines, size_text
from carrel.chat.toolbox import CallOrigin
from carrel.client.handlers import Sampling
from carrel.wire.client_features import CreateMessageResult, SamplingMessage, blocks_of
from carrel.wire.content import AudioContent, ImageContent, TextContent
from carrel.wire.tools import Tool

__all__ = ["Dialogs", "ScreenLike", "hints_of"]

WIDTH = 100
#: Lines of one value, or one message, that are shown with a question; all of it with "m".
MOST = 12
ANSWERS = {"yes": "yes", "edit": "edit", "no": "no"}
HINTS = {
    "read_only_hint": ("reads only", "changes things"),
    "destructive_hint": ("may destroy", "destroys nothing"),
    "open_world_hint": ("reaches beyond the server", "stays within the server"),
}


class ScreenLike(Protocol):
    """Screen, rich or plain."""

    def say(self, text: str, style: str = "") -> None:
        """Print lines."""

    def show_markdown(self, text: str) -> None:
        """Print a whole text of a model."""

    def show(self, event: ChatEvent) -> None:
        """Show an event."""

    def hold(self) -> AbstractContextManager[None]:
        """Hold back output until a question is answered."""

    def begin(self) -> None:
        """Begin to show an answer."""

    def end(self) -> None:
        """End an answer."""


class Dialogs:
    """Dialogs with the user, one at a time.

    Args:
        screen: holds its output while a dialog is open.
        keyboard: reads the answers.
        write: prints lines at once, past the output that the screen holds back.
        interrupt: called when the user presses Ctrl-C instead of answering.
    """

    def __init__(
        self, screen: ScreenLike, keyboard: Keyboard, write: Callable[[str], None], interrupt: Callable[[], None]
    ) -> None:
        self.screen = screen
        self.keyboard = keyboard
        self.write = write
        self.lock = asyncio.Lock()
        """Held while a dialog is open: calls run concurrently, so servers may send requests concurrently."""
        self._interrupt = interrupt

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait until no other dialog is open, and hold the screen."""
        async with self.lock:
            with self.screen.hold():
                yield

    async def read(self, prompt: str, *, default: str = "", password: bool = False) -> str:
        """Ask for one line.

        Raises:
            EOFError: the input has ended, or the user stops the answer with Ctrl-C.
        """
        try:
            return await self.keyboard.ask(prompt, default=default, password=password)
        except KeyboardInterrupt:
            self._interrupt()
            raise EOFError from None

    async def choose(self, prompt: str, choices: dict[str, str], more: Callable[[], None] | None = None) -> str:
        """Ask until the answer is one of the choices, by its letter or word; at the end of the input, the last one.

        "m" shows more, if there is more.
        """
        shown = ", ".join(f"[{word[0]}]{word[1:]}" for word in choices.values()) + (", [m]ore" if more else "")
        while True:
            try:
                answer = (await self.read(f"{prompt} {shown}: ")).lower()
            except EOFError:
                return list(choices)[-1]
            for key, word in choices.items():
                if answer in (word[0], word):
                    return key
            if answer in ("m", "more") and more is not None:
                more()
            else:
                self.write(f"  Please answer with {' or '.join(word[0] for word in choices.values())}.")

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Ask whether a tool may be called: once, or always."""
        name = f"{clean_line(request.server)}:{clean_line(request.tool.name)}"
        async with self.alone():
            if request.changed:
                self.write(f"The definition of {name}, or its server, has changed since you approved it for always.")
                self.write(_definition(request.tool))
            self.write(f"\nThe model wants to call {name}")
            whole = _arguments(request, WIDTH * 1000, 10_000)
            short = _arguments(request, WIDTH, MOST)
            self.write(short or "  without arguments")
            hints = hints_of(request.tool)
            if hints:
                self.write(f"  The server says, and may be wrong: {', '.join(hints)}.")

            def more() -> None:
                self.write(whole if whole != short else _definition(request.tool))

            choices = {"yes": "yes", "always": "always for this tool", "no": "no"}
            answer = await self.choose("Allow?", choices, more)
            return "yes" if answer == "yes" else "always" if answer == "always" else "no"

    async def review_request(self, sampling: Sampling) -> Sampling | None:
        """Show a sampling request, and ask whether the model may answer it; the last message may be edited."""
        async with self.alone():
            self.write(f"\n{clean_line(sampling.server)} asks your model:")
            self.write(_request(sampling, MOST))
            while True:
                whole = _request(sampling, 10_000)
                answer = await self.choose("Let it answer?", ANSWERS, partial(self.write, whole))
                if answer != "edit":
                    return sampling if answer == "yes" else None
                edited = await self._edited(blocks_of(sampling.messages[-1]) if sampling.messages else [])
                if edited is not None and sampling.messages:
                    last = SamplingMessage(role=sampling.messages[-1].role, content=edited)
                    sampling = msgspec.structs.replace(sampling, messages=[*sampling.messages[:-1], last])
                    self.write(_request(sampling, MOST))

    async def review_answer(self, sampling: Sampling, answer: CreateMessageResult) -> CreateMessageResult | None:
        """Show the answer to a sampling request, and ask whether it may be sent to the server."""
        async with self.alone():
            while True:
                self.write(f"The answer of {clean_line(answer.model)}:")
                blocks: list[Any] = answer.content if isinstance(answer.content, list) else [answer.content]
                self.write(_message(SamplingMessage(role="assistant", content=blocks), 10_000))
                decision = await self.choose(f"Send it to {name_of(sampling)}?", ANSWERS)
                if decision != "edit":
                    return answer if decision == "yes" else None
                edited = await self._edited(blocks)
                if edited is not None:
                    answer = msgspec.structs.replace(answer, content=edited)

    async def _edited(self, blocks: list[Any]) -> list[Any] | None:
        """Return content with its last text edited; None if it was left, or has no text."""
        at = next((at for at in reversed(range(len(blocks))) if isinstance(blocks[at], TextContent)), None)
        if at is None:
            self.write("  There is no text in it to edit.")
            return None
        before = blocks[at]
        assert isinstance(before, TextContent)
        try:
            text = await self.read("  New text: ", default=before.text)
        except EOFError:
            return None
        return [*blocks[:at], TextContent(text), *blocks[at + 1 :]]


def hints_of(tool: Tool) -> list[str]:
    """Return a tool's annotations as text. They are hints: no decision depends on them."""
    values = [(words, getattr(tool.annotations, name, None)) for name, words in HINTS.items()]
    return [words[0] if value else words[1] for words, value in values if value is not None]


def name_of(sampling: Sampling) -> str:
    """Return the short name of the requesting server, from the call that caused the request if it is known."""
    origin = None if sampling.call is None else sampling.call.user_data
    return clean_line(origin.server if isinstance(origin, CallOrigin) else sampling.server)


def _arguments(request: ApprovalRequest, width: int, most: int) -> str:
    lines = []
    for name, value in request.arguments.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        first, *others = first_lines(text, most, width) or ['""']
        lines.append(f"  {clean_line(name)}: {first}")
        lines += [f"    {line}" for line in others]
    return "\n".join(lines)


def _definition(tool: Tool) -> str:
    about = first_lines(tool.description or "(no description)", 40, WIDTH)
    schema = msgspec.json.format(msgspec.json.encode(tool.input_schema)).decode()
    return "\n".join(f"  {line}" for line in (*about, *first_lines(schema, 60, WIDTH)))


def _request(sampling: Sampling, most: int) -> str:
    parts = []
    if sampling.system_prompt:
        parts += ["  [system prompt]", *(f"    {line}" for line in first_lines(sampling.system_prompt, most, WIDTH))]
    parts += [_message(message, most) for message in sampling.messages]
    about = [f"at most {sampling.max_tokens:,} tokens"]
    if sampling.tools:
        about.append(f"tools of the server: {', '.join(clean_line(tool.name) for tool in sampling.tools)}")
    if sampling.model_preferences is not None and sampling.model_preferences.hints:
        names = [clean_line(hint.name) for hint in sampling.model_preferences.hints if hint.name]
        about.append(f"it would like {' or '.join(names)}")
    if sampling.include_context not in (None, "none"):
        about.append("it asks for the context of the chat, and does not get it")
    return "\n".join([*parts, f"  ({'; '.join(about)})"])


def _message(message: SamplingMessage, most: int) -> str:
    lines = [f"  [{message.role}]"]
    for block in blocks_of(message):
        if isinstance(block, TextContent):
            lines += [f"    {line}" for line in first_lines(block.text, most, WIDTH)]
        elif isinstance(block, ImageContent | AudioContent):
            lines.append(f"    [{clean_line(block.mime_type)}, {size_text(len(block.data))}]")
        else:
            lines += [f"    {line}" for line in first_lines(clean(str(msgspec.to_builtins(block))), most, WIDTH)]
    return "\n".join(lines)
