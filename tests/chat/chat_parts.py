"""Parts of a chat for tests: a session with a scripted model over servers in memory, and what it has shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from carrel.chat.approvals import ApprovalRequest, Approvals, ApprovalStore, Decision
from carrel.chat.events import ChatEvent, ToolEnd
from carrel.chat.session import ChatSession
from carrel.client.handlers import Handlers
from carrel.wire.client_features import find_imbalance
from chat.memory_host import MemoryHost
from chat.scripted_model import ScriptedModel
from chat.shop import shop


class Chatting:
    """A session, its events, and the questions that were asked; ``decide`` answers them."""

    def __init__(self) -> None:
        self.events: list[ChatEvent] = []
        self.asked: list[ApprovalRequest] = []
        self.decide: Callable[[ApprovalRequest], Decision] = lambda question: "yes"
        self.models: dict[str, ScriptedModel] = {}
        self.session: ChatSession
        self.model: ScriptedModel

    async def ask(self, question: ApprovalRequest) -> Decision:
        self.asked.append(question)
        return self.decide(question)

    async def open_model(self, name: str) -> ScriptedModel:
        return self.models[name]

    def ends(self) -> list[ToolEnd]:
        return [event for event in self.events if isinstance(event, ToolEnd)]

    def check(self) -> None:
        """Check that a vendor would accept the conversation."""
        assert find_imbalance(self.session.chat.conversation.messages) is None


@asynccontextmanager
async def chatting(
    *script: Any,
    apps: dict[str, Any] | None = None,
    handlers: Handlers | None = None,
    remembered: ApprovalStore | None = None,
    allowed: tuple[str, ...] = (),
    **options: Any,
) -> AsyncIterator[Chatting]:
    """Give a session whose model has a script."""
    parts = Chatting()
    parts.model = ScriptedModel(*script)
    approvals = Approvals(remembered or ApprovalStore(None), ask=parts.ask, allowed=allowed)
    async with MemoryHost({"shop": shop()} if apps is None else apps, handlers=handlers) as host:
        parts.session = ChatSession(host, parts.model, parts.open_model, approvals, parts.events.append, **options)
        yield parts
