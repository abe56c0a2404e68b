"""``carrel chat`` in a terminal: connects the screen, the keyboard and the prompts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

from prompt_toolkit.completion import DynamicCompleter

from carrel.chat.approvals import Approvals
from carrel.chat.sampling_review import reviewed_sampling
from carrel.chat.session import ChatSession
from carrel.chat.store import default_chats
from carrel.chat.terminal.completer import ChatCompleter
from carrel.chat.terminal.dialogs import Dialogs, ScreenLike
from carrel.chat.terminal.keyboard import Keyboard, LineKeyboard, PromptKeyboard, quiet, typed_ahead
from carrel.chat.terminal.plain import PlainScreen
from carrel.chat.terminal.program import Interrupts, Program, state_line
from carrel.chat.terminal.screen import Screen, make_console
from carrel.chat.terminal.text import clean, clean_line
from carrel.cli.terminal.client_requests import Terminal, on_the_terminal
from carrel.cli.terminal.messages import print_stderr
from carrel.errors import ConfigError, MCPError
from carrel.host import Host
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import Input, ServerConfig

if TYPE_CHECKING:
    from carrel.cli.chat.start import Start

__all__ = ["converse"]


class TerminalInterface:
    """Screen and keyboard of this terminal. A dumb terminal reads and writes plain lines."""

    def __init__(self) -> None:
        self.session: ChatSession | None = None
        self.completer: ChatCompleter | None = None
        self.interrupts = Interrupts()
        self.is_dumb = os.environ.get("TERM", "") in ("", "dumb") or not sys.stdout.isatty()
        self.screen: ScreenLike
        self.keyboard: Keyboard
        self.write: Callable[[str], None]
        if self.is_dumb:
            self.screen = PlainScreen(sys.stdout)
            self.keyboard = LineKeyboard(sys.stdout)
            self.write = self._write_plain
        else:
            console = make_console(sys.stdout)
            self.screen = Screen(console)
            self.write = lambda text: console.print(text, markup=False)
            self.keyboard = PromptKeyboard(
                completer=DynamicCompleter(lambda: self.completer),
                toolbar=lambda: [] if self.session is None else state_line(self.session),
                history=default_chats().parent / "history",
            )
        self.dialogs = Dialogs(self.screen, self.keyboard, self.write, self.interrupts)

    @staticmethod
    def _write_plain(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    async def ask_input(self, wanted: Input, server: ServerConfig) -> str | None:
        """Prompt for an input of a server configuration."""
        choice = f" ({', '.join(wanted.options)})" if wanted.options else ""
        prompt = clean_line(f"{server.name} needs {wanted.description or wanted.id}{choice}", 400)
        try:
            async with self.dialogs.alone():
                return await self.dialogs.read(f"{prompt}: ", default=wanted.default or "", password=wanted.password)
        except EOFError:
            return None


async def converse(start: Start) -> int:
    """Chat in the terminal until the user leaves, and return the exit code."""
    interface = TerminalInterface()
    typing = ExitStack()
    if not interface.is_dumb:
        typing.enter_context(typed_ahead())
    try:
        return await connected(start, interface, typing)
    finally:
        typing.close()


async def connected(start: Start, interface: TerminalInterface, typing: ExitStack) -> int:
    """Connect, and run the chat. ``typing`` buffers keys until the first prompt, and is closed there."""
    model = await start.open_model()
    terminal = Terminal(interface.dialogs.read, interface.write, interface.screen.hold, open_page)
    base = on_the_terminal(terminal, interface.dialogs.lock)

    def current() -> ChatSession:
        assert interface.session is not None  # servers send requests only while the session is open
        return interface.session

    sample = reviewed_sampling(
        lambda: current().model, interface.dialogs, lambda name, usage: current().count_sampling(name, usage)
    )
    handlers = start.handlers(_replace(base, sample=sample, sample_tools=True))
    approvals = Approvals(start.remembered(), ask=interface.dialogs.approve, allowed=start.options.yes)
    interface.write(f"Connecting to {', '.join(start.targets)} …" if start.targets else "Carrel chat, without servers.")
    try:
        async with start.host(handlers, Inputs(interface.ask_input)) as host:
            session = start.make_session(host, model, approvals, interface.screen.show)
            interface.session = session
            program = Program(
                session,
                interface.screen,
                interface.keyboard,
                interface.interrupts,
                quiet=nullcontext if interface.is_dumb else quiet,
                models=session.prices.known(),
            )
            interface.completer = ChatCompleter(host, program.commands.names, program.commands.values)
            await greet(start, interface, host, session)
            typing.close()
            await program.run()
            model = session.model
            if session.file.path is not None and session.file.path.exists():
                interface.write(f"Saved. To continue: carrel chat --resume {session.file.id}")
    finally:
        await model.close()
    return 0


def _replace(handlers: Any, **changes: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(handlers, **changes)


async def greet(start: Start, interface: TerminalInterface, host: Host, session: ChatSession) -> None:
    """Print the model, the servers, how to get help, and the last messages of a resumed conversation."""
    screen = interface.screen
    screen.say(f"Model: {clean_line(session.model.name)}. /help shows what you can do, Ctrl-D ends the chat.")
    start.print_failures(host)
    for server in host.servers.values():
        if server.state != "ready":
            continue
        counts = []
        for name, listed in (
            ("tool", host.list_tools(servers=[server.name])),
            ("resource", host.list_resources(servers=[server.name])),
            ("prompt", host.list_prompts(servers=[server.name])),
        ):
            count = len(await listed)
            counts += [f"{count:,} {name}{'' if count == 1 else 's'}"] if count else []
        screen.say(f"  {clean_line(server.name)}: {', '.join(counts) or 'offers nothing'}", "dim")
    if start.saved is not None:
        screen.say(f"Continuing {start.saved.id}: {clean_line(start.saved.title)}", "dim")
        for message in start.saved.messages[-2:]:
            text = last_text(message)
            if text:
                screen.say(f"{'You' if message.role == 'user' else 'Model'}: {text}", "dim")


def last_text(message: Any) -> str:
    """Return the beginning of the text of a message."""
    blocks = message.content if isinstance(message.content, list) else [message.content]
    return clean_line(" ".join(clean(getattr(block, "text", "")) for block in blocks[-1:]), 300)


async def open_page(url: str) -> None:
    """Open a page in the browser after the user has agreed. Print the error if that fails."""
    from carrel.security.client.browser import open_page as open_in_browser

    try:
        await open_in_browser(url)
    except (MCPError, ConfigError) as error:
        print_stderr(f"carrel: {clean_line(error, 1000)}")
