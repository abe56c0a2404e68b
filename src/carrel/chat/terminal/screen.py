"""Screen: shows a chat with rich: streamed Markdown, tool calls as compact panels, and a status line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from carrel.chat import events
from carrel.chat.events import ChatEvent
from carrel.chat.terminal.markdown import Block, MarkdownStream, Tail
from carrel.chat.terminal.text import arguments_line, characters, clean, clean_line, first_lines, size_text

__all__ = ["Screen", "Steady", "make_console"]

#: Lines of a tool's result that are shown.
PREVIEW = 5
#: Seconds between updates of the live display.
REFRESH = 0.1
STYLES = {"done": "green", "error": "red", "rejected": "yellow", "cancelled": "yellow"}
LEVELS = {"info": "dim", "warning": "yellow", "error": "red"}


class Steady:
    """Text file for a terminal, which shows each write at once: a part of an update is never seen (no flicker).

    https://gist.github.com/christianparpart/d8a62cc1ab659194337d73e399004036 (synchronized output)
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write a text as one update."""
        self._file.write(f"\x1b[?2026h{text}\x1b[?2026l" if "\x1b" in text else text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def make_console(file: IO[str]) -> Console:
    """Return a console for a terminal; without colour where NO_COLOR is set."""
    return Console(file=Steady(file), highlight=False, emoji=False, markup=False, soft_wrap=False)  # type: ignore[arg-type]


class Screen:
    """Output of a chat. While a question is open (``hold``), output is buffered, and printed afterwards."""

    def __init__(self, console: Console, hint: str = "Ctrl-C stops") -> None:
        self.console = console
        self._hint = hint
        self._live: Live | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._markdown = MarkdownStream()
        self._running: dict[str, tuple[str, str]] = {}
        """Names of running calls and their progress, by id."""
        self._doing = ""
        self._began = 0.0
        self._held: list[Callable[[], None]] | None = None
        self._spinner = Spinner("dots", style="cyan")

    # Lines

    def say(self, text: str, style: str = "") -> None:
        """Print lines. Text of servers in it has to be clean already."""
        self._print(Text(text, style=style))

    def show_markdown(self, text: str) -> None:
        """Print a whole Markdown text of a model."""
        self._print(Block(clean(text)))

    def _print(self, what: RenderableType) -> None:
        if self._held is not None:
            self._held.append(lambda: self.console.print(what))
        else:
            self.console.print(what)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Leave the terminal to a question."""
        nested = self._held is not None
        if not nested:
            self._stop()
            self._held = []
        try:
            yield
        finally:
            if not nested and self._held is not None:
                held, self._held = self._held, None
                for show in held:
                    show()
                self._start()

    # One answer

    def begin(self) -> None:
        """Begin to show an answer."""
        self._doing, self._began = "waiting for the model", time.monotonic()
        self._running.clear()
        self._markdown = MarkdownStream()
        self.console.print()
        self._start()

    def end(self) -> None:
        """End an answer, and print the rest of its text."""
        self._finish_text()
        self._doing = ""
        self._running.clear()
        self._stop()

    def show(self, event: ChatEvent) -> None:
        """Show an event."""
        match event:
            case events.Text(text=text):
                self._doing = "answering"
                self._commit(self._markdown.add(clean(text)))
            case events.Thinking():
                self._doing = "thinking"
            case events.ToolUseEvent():
                self._finish_text()
                self._doing = ""
                self._running[event.id] = (_name(event.server, event.tool), "")
            case events.ToolProgress():
                share = f"{event.progress:g}" if event.total is None else f"{event.progress:g} of {event.total:g}"
                name = self._running.get(event.id, ("", ""))[0]
                self._running[event.id] = (name, f"{share} {clean_line(event.message or '', 60)}".strip())
            case events.ToolEnd():
                self._finish_text()
                self._running.pop(event.id, None)
                self._print(tool_panel(event, self.console.width))
                self._doing = self._doing or ("" if self._running else "waiting for the model")
            case events.Media():
                self._finish_text()
                where = f": {clean_line(event.file, 400)}" if event.file else ""
                link = f" link {Path(event.file).absolute().as_uri()}" if event.file else ""
                self.say(f"[{clean_line(event.mime_type)}, {size_text(event.size)}{where}]", f"cyan{link}")
            case events.Notice():
                self._finish_text()
                self.say(clean(event.text), LEVELS[event.level])
            case events.TurnEnd():
                self._finish_text()
            case _:
                pass

    def _finish_text(self) -> None:
        self._commit(self._markdown.end())

    def _commit(self, text: str) -> None:
        if text.strip():
            self._print(Group(Block(text), Text("")))

    # Live display

    def _start(self) -> None:
        if self._live is None and self._doing + "".join(self._running) and self.console.is_terminal:
            self._live = Live(
                console=self.console,
                transient=True,
                auto_refresh=False,
                get_renderable=self._status,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start(refresh=True)
            self._ticking = asyncio.get_running_loop().create_task(self._tick(self._live))

    def _stop(self) -> None:
        if self._live is not None:
            if self._ticking is not None:
                self._ticking.cancel()
            self._live.stop()
            self._live = None

    async def _tick(self, live: Live) -> None:
        """Refresh the live display in this thread: a separate thread would write into the middle of other output."""
        while True:
            await asyncio.sleep(REFRESH)
            live.refresh()

    def _status(self) -> RenderableType:
        seconds = time.monotonic() - self._began
        calls = [
            Text(f"  … {name}{f'  {progress}' if progress else ''}", style="cyan", no_wrap=True, overflow="ellipsis")
            for name, progress in list(self._running.values())
        ][:8]
        doing = self._doing or f"{len(self._running)} tool call{'' if len(self._running) == 1 else 's'}"
        self._spinner.update(text=Text(f"{doing} · {seconds:.0f} s · {self._hint}", style="dim"))
        tail = Tail(self._markdown.tail, self.console.height - len(calls) - 4)
        return Group(*([tail] if self._markdown.tail.strip() else []), *calls, self._spinner)


def tool_panel(event: events.ToolEnd, width: int) -> Text:
    """Return a tool call with its arguments and the beginning of its result."""
    style = STYLES[event.outcome]
    name = _name(event.server, event.tool)
    panel = Text("● ", style=style)
    panel.append(name, style="bold").append("  ")
    panel.append(arguments_line(event.arguments, max(width - len(name) - 5, 40)))
    for line in first_lines(event.text, PREVIEW, width - 5):
        panel.append("\n  │ ", style=style).append(line, style="dim")
    outcome = {"error": "failed", "rejected": "not approved"}.get(event.outcome, event.outcome)
    panel.append(f"\n  ╰ {outcome} · {characters(event.size)} · {event.seconds:.1f} s\n", style=style)
    return panel


def _name(server: str, tool: str) -> str:
    return clean_line(f"{server}:{tool}" if server else tool, 80)
