"""Streamed Markdown: blocks that are complete are printed once, and the one that is being written is shown live."""

from __future__ import annotations

from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.segment import Segment

__all__ = ["Block", "ChatMarkdown", "MarkdownStream", "Tail"]


class LeftHeading(Heading):
    """Heading at the left margin: a centred one looks lost in a chat."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text
        text.justify = "left"
        text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield text


class ChatMarkdown(Markdown):
    """Markdown whose links are written out, so that a label cannot hide where a link leads."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": LeftHeading}

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False, code_theme="ansi_dark", inline_code_theme="ansi_dark")


class Block:
    """Markdown without blank lines around it, so that all blocks are one line apart."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(ChatMarkdown(self._text), options.update(height=None), pad=False)
        full = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
        for line in lines[full[0] : full[-1] + 1] if full else ():
            yield from line
            yield Segment.line()


class MarkdownStream:
    """Markdown that arrives in pieces. ``add`` returns the text of blocks that are complete; ``tail`` is the rest."""

    def __init__(self) -> None:
        self.tail = ""
        self._parser = MarkdownIt().enable("table")

    def add(self, piece: str) -> str:
        """Add a piece, and return the blocks that cannot change any more, if there are any new ones."""
        self.tail += piece
        if "\n" not in piece:
            return ""
        starts = [token.map[0] for token in self._parser.parse(self.tail) if token.level == 0 and token.map]
        if len(starts) < 2 or not starts[-1]:
            return ""
        lines = self.tail.split("\n")
        self.tail = "\n".join(lines[starts[-1] :])
        return "\n".join(lines[: starts[-1]])

    def end(self) -> str:
        """Return the remaining text, and reset."""
        rest, self.tail = self.tail, ""
        return rest


class Tail:
    """The last lines of Markdown that is being written: as many as the terminal has room for."""

    def __init__(self, text: str, height: int) -> None:
        self._text = text
        self._height = max(height, 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(Block(self._text), options.update(height=None), pad=False)
        for line in lines[-self._height :]:
            yield from line
            yield Segment.line()
