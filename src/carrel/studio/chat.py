"""OpenChat: a conversation that the page has opened, with the answer that is being written and its approvals."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from carrel.chat.approvals import ApprovalRequest, Approvals, ApprovalStore, CallRejected, Decision
from carrel.chat.events import ChatEvent, Notice, TurnEnd
from carrel.chat.session import ChatSession
from carrel.chat.store import ChatStore, Saved, title_of
from carrel.host.host import Host
from carrel.regular_file import timestamp_of
from carrel.studio.api import Problem
from carrel.studio.chat_api import CallDecision, CallOutcome, ChatView
from carrel.studio.chat_view import Answering, entries_of, outcome_of, turn_start
from carrel.studio.models import Models
from carrel.studio.problems import NotFound, Refused, problem_of
from carrel.wire.client_features import ToolResultContent, ToolUseContent, blocks_of

__all__ = ["ChatSaving", "OpenChat"]

#: Seconds between two events about one conversation.
PAUSE = 0.1


class PendingApproval(NamedTuple):
    """Call that waits for the user. ``digest`` is of the call: server, definition of the tool, and arguments."""

    digest: str
    decision: asyncio.Future[CallDecision]


class ChatSaving(NamedTuple):
    """Where conversations are saved, the tools that are approved for always, and the servers as the user named them."""

    chats: ChatStore
    approvals: ApprovalStore
    targets: tuple[str, ...] = ()


class OpenChat:
    """Conversation with one answer at a time.

    Args:
        host: the servers.
        models: the models.
        saving: where conversations and approvals are saved.
        changed: called with the id when there is something new to show.
        saved: the saved conversation; None for a new one.
    """

    def __init__(
        self,
        host: Host,
        models: Models,
        saving: ChatSaving,
        changed: Callable[[str], None],
        saved: Saved | None = None,
    ) -> None:
        model = models.get((models.current or "") if saved is None else saved.model)
        approvals = Approvals(saving.approvals, ask=self._ask)
        self.session = ChatSession(
            host, model, models.named, approvals, self._show, store=saving.chats, targets=saving.targets
        )
        self._name = "" if saved is None else saved.name
        self._store = saving.chats
        self._changed = changed
        self._answering = Answering()
        self._waiting: dict[str, PendingApproval] = {}
        self._task: asyncio.Task[TurnEnd] | None = None
        self._composing = False
        self._error: Problem | None = None
        self._revision = 0
        self._version: tuple[int, int, int] | None = None
        self._publishing: asyncio.TimerHandle | None = None
        if saved is not None:
            self.session.resume(saved)
            self._version = self._file_version()

    @property
    def id(self) -> str:
        """The id of the conversation."""
        return self.session.file.id

    @property
    def title(self) -> str:
        """The title that the user chose, or else the beginning of the first message."""
        return self._name or title_of(self.session.chat.conversation.messages)

    @property
    def running(self) -> bool:
        """Whether the model is answering."""
        return self._composing or (self._task is not None and not self._task.done())

    def view(self, since: int = 0, revision: int | None = None) -> ChatView:
        """Return the conversation, from an entry on if the entries before it are known in this revision."""
        self._reload()
        chat = self.session.chat
        messages, usage = chat.conversation.messages, chat.conversation.usage
        entries = entries_of(messages, self._answering, self._find_tool)
        questions = [at for at, entry in enumerate(entries) if entry.role == "user"]
        stable = questions[-1] if questions else 0
        first = min(since, stable) if revision == self._revision else 0
        return ChatView(
            id=self.id,
            title=self.title,
            model=self.session.model.name,
            running=self.running,
            revision=self._revision,
            first=first,
            stable=stable,
            entries=tuple(entries[first:]),
            tokens=usage.input_tokens + usage.output_tokens,
            cost=chat.conversation.cost,
            share=100 * chat.context_tokens // chat.window,
            retry=not self.running and bool(messages) and messages[-1].role == "user",
            error=self._error,
        )

    def outcome(self, message: int, id: str) -> CallOutcome:
        """Return a call with its whole result, by the number of the message with the result and the id of the call.

        Raises:
            NotFound: there is no such result.
        """
        messages = self.session.chat.conversation.messages
        if not 0 < message < len(messages):
            raise NotFound("There is no such result any more")
        uses, results = blocks_of(messages[message - 1]), blocks_of(messages[message])
        use = next((each for each in uses if isinstance(each, ToolUseContent) and each.id == id), None)
        found = (each for each in results if isinstance(each, ToolResultContent) and each.tool_use_id == id)
        result = next(found, None)
        if use is None or result is None:
            raise NotFound("There is no such result any more")
        return outcome_of(use, result)

    # Turns

    async def compose(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what begins a turn, such as reading attachments and starting the answer; nothing else begins meanwhile.

        Raises:
            Refused: the model is answering.
        """
        if self.running:
            raise Refused(409, "The model is answering: stop it first")
        self._reload()
        self._composing = True
        try:
            await work()
        finally:
            self.session.pending = []
            self._composing = False
            self.publish()

    def start(self, turn: Coroutine[Any, Any, TurnEnd]) -> None:
        """Let the model answer."""
        self._answering, self._error = Answering(), None
        self._task = asyncio.ensure_future(self._answer(turn))

    async def _answer(self, turn: Coroutine[Any, Any, TurnEnd]) -> TurnEnd:
        try:
            return await turn
        except Exception as error:
            self._error = problem_of(error)
            raise
        finally:
            self._answering.clear()
            self._waiting.clear()
            self._version = None  # the file is read again, as another program may have written too
            asyncio.get_running_loop().call_soon(self.publish)  # when the task has ended

    def take_back(self) -> None:
        """Take back the last message of the user and its answer.

        Raises:
            ConfigError: there is no message.
        """
        self.session.undo()
        self._answering, self._error = Answering(), None
        self._revision += 1

    @property
    def last_message(self) -> Any:
        """The last message of the user, or None."""
        messages = self.session.chat.conversation.messages
        return messages[turn_start(messages)] if messages else None

    async def stop(self) -> None:
        """Stop the answer. The conversation keeps the messages and calls so far."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def rename(self, title: str) -> None:
        """Give the conversation a title."""
        self.session.file.rename(title)
        self._name = title

    # Approvals

    def decide(self, id: str, decision: CallDecision) -> None:
        """Decide about a call that waits.

        Raises:
            NotFound: the call does not wait.
            Refused: the decision is about another definition of the tool, or about other arguments.
        """
        waiting = self._waiting.get(id)
        if waiting is None or waiting.decision.done():
            raise NotFound("There is no such call, or it is decided")
        if not secrets.compare_digest(waiting.digest.encode(), decision.digest.encode()):
            raise Refused(409, "This is not the call that was shown")
        waiting.decision.set_result(decision)

    async def _ask(self, request: ApprovalRequest) -> Decision:
        call = (request.server, msgspec.to_builtins(request.tool), request.arguments)
        digest = sha256(msgspec.json.encode(call, order="sorted")).hexdigest()
        id = secrets.token_urlsafe(12)
        decision: asyncio.Future[CallDecision] = asyncio.get_running_loop().create_future()
        self._waiting[id] = PendingApproval(digest, decision)
        self._answering.ask(id, digest, request)
        self.publish()
        try:
            decided = await decision
        finally:
            self._waiting.pop(id, None)
        if decided.decision == "no" and decided.reason.strip():
            raise CallRejected(decided.reason.strip())
        return decided.decision

    # Views of the page

    def publish(self) -> None:
        """Report a change, soon and only once."""
        if self._publishing is None:
            self._publishing = asyncio.get_running_loop().call_later(PAUSE, self._publish)

    def _publish(self) -> None:
        self._publishing = None
        self._changed(self.id)

    def _show(self, event: ChatEvent) -> None:
        if isinstance(event, Notice) and event.level == "warning":
            self._revision += 1  # older messages may be others now
        self._answering.take(event, len(self.session.chat.conversation.messages))
        self.publish()

    def _find_tool(self, name: str) -> tuple[str, str]:
        """Return the server and the tool of a name that the model uses, also if the server is not connected."""
        server, tool = self.session.toolbox.find_tool(name)
        if not server and "__" in tool:
            server, _, tool = tool.partition("__")
        return server, tool

    # The file, to which ``carrel chat`` may add as well

    def _file_version(self) -> tuple[int, int, int] | None:
        path = self.session.file.path
        return None if path is None else timestamp_of(path)

    def _reload(self) -> None:
        """Read the file again if another program may have written to it."""
        version = None if self.running else self._file_version()
        if version is None or version == self._version:
            return
        saved = self._store.find(self.id)
        self._name, self._version = saved.name, version
        conversation = self.session.chat.conversation
        if saved.messages != conversation.messages:
            pending = self.session.pending
            self.session.resume(saved)
            self.session.pending = pending
            self._answering, self._error = Answering(), None
            self._revision += 1
