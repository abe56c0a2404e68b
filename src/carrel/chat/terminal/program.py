"""Program: the chat in a terminal, from the first prompt to the last."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit.formatted_text import StyleAndTextTuples

from carrel.chat.prompts import check_arguments, find_prompt, read_pairs
from carrel.chat.session import ChatSession
from carrel.chat.terminal.commands import Commands, Quit
from carrel.chat.terminal.dialogs import ScreenLike
from carrel.chat.terminal.keyboard import Keyboard
from carrel.chat.terminal.text import clean_line
from carrel.errors import ConfigError, MCPError

__all__ = ["Interrupts", "Program", "state_line"]

MARKS = {"ready": "●", "failed": "✗", "disabled": "○", "closed": "✗"}


class Interrupts:
    """Ctrl-C: cancels the current answer, or else interrupts the keyboard."""

    def __init__(self) -> None:
        self.task: asyncio.Future[object] | None = None
        self.keyboard: Keyboard | None = None

    def __call__(self) -> None:
        """Handle Ctrl-C."""
        if self.task is not None and not self.task.done():
            self.task.cancel()
        elif self.keyboard is not None:
            self.keyboard.interrupt()


class Program:
    """Reads messages and commands, and shows the answers, until the user leaves.

    Args:
        session: the chat.
        screen: the output.
        keyboard: the input.
        interrupts: called at Ctrl-C.
        quiet: context manager around the output of an answer, for example to disable echo.
        models: names of models to suggest.
    """

    def __init__(
        self,
        session: ChatSession,
        screen: ScreenLike,
        keyboard: Keyboard,
        interrupts: Interrupts,
        *,
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
        models: Sequence[str] = (),
    ) -> None:
        self.session = session
        self.commands = Commands(session, screen, self._turn, models)
        self._screen = screen
        self._keyboard = keyboard
        self._interrupts = interrupts
        self._quiet = quiet
        interrupts.keyboard = keyboard

    async def run(self) -> None:
        """Run the program until the user leaves."""
        loop = asyncio.get_running_loop()
        before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(self._interrupts))
        try:
            await self._read_all()
        finally:
            signal.signal(signal.SIGINT, before)

    async def _read_all(self) -> None:
        leaving = False
        while True:
            try:
                text = await self._keyboard.read_message()
                leaving = False
                if text.strip():
                    await self.handle(text.strip())
            except KeyboardInterrupt:
                if leaving:
                    return
                leaving = True
                self._screen.say("Press Ctrl-C again to leave.", "dim")
            except (EOFError, Quit):
                return

    async def handle(self, text: str) -> None:
        """Handle a message, a command, or a prompt of a server. Errors are shown.

        Raises:
            Quit: the user wants to leave.
        """
        try:
            if text.startswith("/"):
                name, _, arguments = text[1:].partition(" ")
                if name in self.commands.table:
                    await self.commands.run(name, arguments.strip())
                elif not await self._prompt(name, arguments):
                    await self.commands.run(name, arguments)
            else:
                await self._turn(self.session.say(text))
        except MCPError as error:
            self._failed(error)

    async def _prompt(self, name: str, arguments: str) -> bool:
        """Send a prompt of a server, after asking for its missing arguments; return whether there is one."""
        call = await find_prompt(self.session.host, name)
        if call is None:
            return False
        values = read_pairs(arguments)
        for missing in check_arguments(call.prompt, values):
            about = next((one.description for one in call.prompt.arguments or () if one.name == missing), None)
            note = f" ({clean_line(about)})" if about else ""
            try:
                values[missing] = await self._keyboard.ask(f"  {clean_line(missing)}{note}: ")
            except (KeyboardInterrupt, EOFError):
                raise ConfigError(f"{name} was not sent: it needs {missing}") from None
        await self._turn(self.session.say_prompt(call, values))
        return True

    async def _turn(self, work: Awaitable[object]) -> None:
        """Show an answer until it is complete, or stopped with Ctrl-C."""
        task = asyncio.ensure_future(work)
        self._interrupts.task = task
        self._screen.begin()
        try:
            with self._quiet():
                await asyncio.wait([task])
        finally:
            self._interrupts.task = None
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            self._screen.end()
        if task.cancelled():
            self._screen.say("Stopped.", "yellow")
        elif isinstance(task.exception(), MCPError):
            self._failed(task.exception())
        else:
            task.result()

    def _failed(self, error: BaseException | None) -> None:
        self._screen.say(f"Error: {clean_line(error or '', 1000)}", "red")


def state_line(session: ChatSession) -> StyleAndTextTuples:
    """Return the line of state below the input: model, tokens, cost, servers."""
    chat = session.chat
    used = chat.conversation.usage
    parts = [clean_line(session.model.name, 40)]
    if used.input_tokens or used.output_tokens:
        parts.append(f"{used.input_tokens + used.output_tokens:,} tokens")
    share = 100 * chat.context_tokens // chat.window
    if share:
        parts.append(f"context {share}%")
    if chat.conversation.cost is not None:
        parts.append(f"${chat.conversation.cost:.4f}")
    if session.pending:
        parts.append(f"{len(session.pending)} attached")
    found: StyleAndTextTuples = [("class:bottom-toolbar.text", " · ".join(parts))]
    for server in session.host.servers.values():
        style = {"ready": "fg:ansigreen", "failed": "fg:ansired"}.get(server.state, "fg:ansiyellow")
        found += [("", "  "), (style, MARKS.get(server.state, "…")), ("", f" {clean_line(server.name, 24)}")]
    return found
