"""Startup of ``carrel chat``: creates the model, servers, approvals and session from the options."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from carrel.cli.client.connection import SERVER_ERROR, UNREACHABLE, failed, shown
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import write_text
from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.chat.approvals import Approvals, ApprovalStore
    from carrel.chat.events import ChatEvent
    from carrel.chat.model import Model
    from carrel.chat.session import ChatSession
    from carrel.chat.store import ChatStore, Saved
    from carrel.chat.terminal.plain import PlainScreen
    from carrel.cli.chat.host_targets import HostTargets
    from carrel.client.handlers import Handlers
    from carrel.host import Host
    from carrel.host.config.inputs import Inputs

__all__ = ["Start", "is_terminal"]


def is_terminal(file: object) -> bool:
    return bool(getattr(file, "isatty", lambda: False)())


class Start:
    """Creates the parts of a chat from the command-line options."""

    def __init__(
        self, options: argparse.Namespace, store: ChatStore | None, saved: Saved | None, targets: Sequence[str]
    ) -> None:
        from carrel.cli.chat.host_targets import read_host_targets

        self.options = options
        self.store = store
        self.saved = saved
        self.targets = list(targets)
        self.servers: HostTargets = read_host_targets(targets, options.header)
        self.session: ChatSession | None = None

    async def answer_once(self) -> int:
        """Answer one question, print the answer, and return the exit code."""
        from carrel.chat.terminal.plain import AnswerOnly, JsonLines

        question = await self.read_question()
        screen: PlainScreen = JsonLines(sys.stdout) if self.options.json else AnswerOnly(sys.stderr)
        model = await self.open_model()
        try:
            async with self.host(self.handlers()) as host:
                self.print_failures(host)
                if host.servers and all(server.state == "failed" for server in host.servers.values()):
                    return failed("no server could be reached", UNREACHABLE)
                session = self.make_session(host, model, self.approvals(), screen.show)
                answer = await session.say(question)
        finally:
            await model.close()
        if not self.options.json:
            write_text(answer.text)
        return SERVER_ERROR if answer.stop_reason in ("maxRounds", "refusal") else 0

    async def read_question(self) -> str:
        """Return the question from the option or from standard input.

        Raises:
            ConfigError: the question is empty.
        """
        text: str | None = self.options.question
        if text is None:
            if is_terminal(sys.stdin):
                print_stderr("Type your question, and end it with Ctrl-D on an empty line.")
            text = await asyncio.to_thread(sys.stdin.read)
        if not text or not text.strip():
            raise ConfigError("there is no question: write it to standard input, or give it with --question")
        return text.strip()

    # Parts

    async def open_model(self) -> Model:
        """Open the model named by the option, or else the model of the resumed conversation."""
        from carrel.chat.models.open import open_model

        name = self.options.model or (self.saved.model if self.saved is not None else None)
        return await open_model(name)

    def host(self, handlers: Handlers, inputs: Inputs | None = None) -> Host:
        """Return the host of the servers. Use it as an async context manager."""
        from carrel.cli.client.stored_login import stored_login
        from carrel.host import Host

        return Host(
            self.servers.servers,
            files=self.servers.files,
            inputs=inputs,
            handlers=handlers,
            timeout=self.options.timeout,
            credentials=lambda config: stored_login(config.headers),
        )

    def handlers(self, base: Handlers | None = None) -> Handlers:
        """Return handlers with the roots given as options."""
        import msgspec

        from carrel.client.handlers import Handlers

        handlers = Handlers() if base is None else base
        roots = [os.path.abspath(os.path.expanduser(root)) for root in self.options.root]  # noqa: PTH100, PTH111
        return msgspec.structs.replace(handlers, roots=roots) if roots else handlers

    def remembered(self) -> ApprovalStore:
        """Return the file of permanently approved tools."""
        from carrel.chat.approvals import ApprovalStore, default_approvals

        return ApprovalStore(default_approvals())

    def approvals(self) -> Approvals:
        """Return approvals that never prompt the user."""
        from carrel.chat.approvals import Approvals

        return Approvals(self.remembered(), allowed=self.options.yes)

    def make_session(
        self, host: Host, model: Model, approvals: Approvals, show: Callable[[ChatEvent], None]
    ) -> ChatSession:
        """Return the chat session, with the messages of the resumed conversation."""
        from carrel.chat.loop import MAX_ROUNDS, ChatOptions
        from carrel.chat.models.open import open_model
        from carrel.chat.session import ChatSession

        options = self.options
        session = ChatSession(
            host,
            model,
            open_model,
            approvals,
            show,
            store=self.store,
            targets=self.targets,
            own_tools=not options.no_resource_tools,
            options=ChatOptions(options.context, options.max_rounds or MAX_ROUNDS, system=options.system),
        )
        if self.saved is not None:
            session.resume(self.saved)
        self.session = session
        return session

    def print_failures(self, host: Host) -> None:
        """Print a line for each server that could not be reached and for each configuration problem."""
        for problem in host.problems:
            print_stderr(f"carrel: {shown(str(problem))}")
        for server in host.servers.values():
            if server.state == "failed":
                reason = (server.reason or "").replace("\n", " ")
                print_stderr(f"carrel: {shown(server.name)} cannot be reached: {shown(reason)}")
