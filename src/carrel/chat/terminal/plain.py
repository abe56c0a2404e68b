"""Output of a chat without rich: plain lines for a dumb terminal, the answer alone, or events as JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

from carrel.chat import events
from carrel.chat.events import ChatEvent
from carrel.chat.own_tools import READ_RESOURCE_TOOL
from carrel.chat.terminal.text import arguments_line, characters, clean, clean_line, first_lines, size_text
from carrel.chat.toolbox import READING

__all__ = ["AnswerOnly", "JsonLines", "PlainScreen"]

WIDTH = 100


class PlainScreen:
    """Screen that only ever writes lines, as a dumb terminal needs it."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._in_line = False
        self._held: list[Callable[[], None]] | None = None

    def say(self, text: str, style: str = "") -> None:
        """Print lines."""
        if self._held is not None:
            self._held.append(lambda: self.say(text))
            return
        self._write(f"{chr(10) if self._in_line else ''}{text}\n")
        self._in_line = False

    def show_markdown(self, text: str) -> None:
        """Print a whole text of a model."""
        self.say(clean(text))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Leave the terminal to a question."""
        nested = self._held is not None
        self._held = self._held if nested else []
        if self._in_line:
            self._write("\n")
            self._in_line = False
        try:
            yield
        finally:
            if not nested:
                held, self._held = self._held, None
                for show in held or ():
                    show()

    def begin(self) -> None:
        """Begin to show an answer."""

    def end(self) -> None:
        """End an answer."""
        if self._in_line:
            self._write("\n")
            self._in_line = False

    def show(self, event: ChatEvent) -> None:
        """Show an event."""
        if self._held is not None:
            self._held.append(lambda: self.show(event))
            return
        match event:
            case events.Text(text=text) if text:
                self._write(clean(text))
                self._in_line = not text.endswith("\n")
            case events.ToolUseEvent():
                self.say(f"* {_name(event)} {arguments_line(event.arguments, 300)}")
            case events.ToolEnd():
                lines = first_lines(event.text, 5, WIDTH)
                text = "".join(f"    {line}\n" for line in lines)
                self.say(f"{text}  {_name(event)}: {event.outcome}, {characters(event.size)}, {event.seconds:.1f} s")
            case events.Media():
                where = f": {clean_line(event.file, 400)}" if event.file else ""
                self.say(f"[{clean_line(event.mime_type)}, {size_text(event.size)}{where}]")
            case events.Notice():
                self.say(clean(event.text))
            case _:
                pass

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class AnswerOnly(PlainScreen):
    """Screen of ``--print``: notices and tool calls that were not done are lines on standard error, nothing else."""

    def show(self, event: ChatEvent) -> None:
        """Show an event."""
        if isinstance(event, events.Notice):
            self.say(clean(event.text))
        elif isinstance(event, events.ToolEnd) and event.outcome == "rejected":
            name = _name(event)
            self.say(f"carrel: the call of {name} was not approved; --yes {name} approves it")
        elif isinstance(event, events.ToolEnd) and event.outcome == "error":
            self.say(f"carrel: {_name(event)} failed: {clean_line(event.text)}")
        elif isinstance(event, events.Media) and event.file:
            self.say(f"carrel: {clean_line(event.mime_type)} is in {clean_line(event.file, 400)}")


class JsonLines(PlainScreen):
    """Screen of ``--json``: each event is a line of JSON."""

    def say(self, text: str, style: str = "") -> None:
        """Print lines for the user as a notice."""
        self.show(events.Notice(text=text))

    def show(self, event: ChatEvent) -> None:
        """Show an event."""
        self._write(f"{msgspec.json.encode(event).decode()}\n")


def _name(event: events.ToolUseEvent | events.ToolEnd) -> str:
    if not event.server and event.tool == READ_RESOURCE_TOOL.name:  # under the name by which it is approved
        return clean_line(f"{event.arguments.get('server', '')}:{READING}")
    return clean_line(f"{event.server}:{event.tool}" if event.server else event.tool)
