"""Chats: the conversations of ``carrel chat``, which the page opens, continues, renames and deletes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from carrel.chat.attachments import Attachment, Mention, attach_items, read_attachments
from carrel.chat.compaction import ATTACHED
from carrel.chat.contents import size_of
from carrel.chat.store import Saved
from carrel.errors import ConfigError
from carrel.host.host import Host
from carrel.studio.bodies import ContextRequest
from carrel.studio.chat import ChatSaving, OpenChat
from carrel.studio.chat_api import ChatChange, ChatMessage, ChatSummary, ChatView
from carrel.studio.events import PageEvents
from carrel.studio.models import Models
from carrel.studio.problems import NotFound, Refused
from carrel.wire.client_features import SamplingMessage, blocks_of
from carrel.wire.content import TextContent

if TYPE_CHECKING:
    from carrel.context.pack import Packed

__all__ = ["Chats"]


class Chats:
    """Conversations of the user.

    Args:
        host: the servers.
        models: the models.
        events: gets an event when a conversation changes.
        pack: packs a context.
        saving: where conversations and approvals are saved.
    """

    def __init__(
        self,
        host: Host,
        models: Models,
        events: PageEvents,
        pack: Callable[[ContextRequest], Awaitable[Packed]],
        saving: ChatSaving,
    ) -> None:
        self.models = models
        self._host = host
        self._events = events
        self._pack = pack
        self._saving = saving
        self._store = saving.chats
        self._open: dict[str, OpenChat] = {}

    async def list(self, words: str = "") -> tuple[ChatSummary, ...]:
        """Return the conversations that have some words in their titles or texts, the last changed first."""
        saved = await asyncio.to_thread(self._store.list)
        wanted = words.casefold().split()
        new = [chat for chat in self._open.values() if chat.running and chat.id not in {one.id for one in saved}]
        return (
            *(_summary(chat.id, chat.title, chat.session.model.name, "", True) for chat in new if not wanted),
            *(
                _summary(one.id, one.title, one.model, one.changed, one.id in self._open and self._open[one.id].running)
                for one in saved
                if all(word in _text_of(one) for word in wanted)
            ),
        )

    def new(self) -> OpenChat:
        """Begin a conversation. It is saved with its first message."""
        return self._opened(None)

    def find(self, id: str) -> OpenChat:
        """Return a conversation by its id.

        Raises:
            NotFound: there is no such conversation.
        """
        if id in self._open:
            return self._open[id]
        try:
            saved = self._store.find(id)
        except ConfigError:
            raise NotFound("There is no such conversation") from None
        if not id or saved.id != id:
            raise NotFound("There is no such conversation")
        return self._opened(saved)

    async def send(self, id: str, message: ChatMessage) -> ChatView:
        """Send a message with its attachments, and return the conversation while the model answers.

        Raises:
            MCPError: an attachment cannot be read; nothing is sent.
            Refused: the message is empty, or the model is answering.
        """
        chat = self.find(id)
        if not message.text.strip():
            raise Refused(422, "The message is empty")

        async def work() -> None:
            attached: list[Attachment] = []
            if message.replace and chat.last_message is not None:
                attached = _attachments_of(chat.last_message)
            if message.context is not None:
                attached += attach_items((await self._pack(message.context)).items)
            attached += await read_attachments(
                self._host, [Mention(key.server, key.uri) for key in message.attachments]
            )
            chat.session.pending = attached
            content = await chat.session.compose(message.text)
            if message.replace:
                chat.take_back()
            chat.start(chat.session.send(content))

        await chat.compose(work)
        return chat.view()

    async def retry(self, id: str) -> ChatView:
        """Let the model answer the last message again, after an error.

        Raises:
            Refused: the model is answering.
        """
        chat = self.find(id)

        async def work() -> None:
            chat.start(chat.session.retry())

        await chat.compose(work)
        return chat.view()

    async def change(self, id: str, change: ChatChange) -> ChatView:
        """Rename a conversation, or let another model continue it, which is the current model then.

        Raises:
            ConfigError: there is no such model, or its key is missing.
            Refused: the model is answering.
        """
        chat = self.find(id)
        if change.title is not None:
            chat.rename(" ".join(change.title.split()))
        if change.model is not None:
            name = change.model

            async def work() -> None:
                await chat.session.use_model(name)
                self.models.current = chat.session.model.name

            await chat.compose(work)
        chat.publish()
        return chat.view()

    async def delete(self, id: str) -> None:
        """Delete a conversation.

        Raises:
            NotFound: there is no such conversation.
        """
        chat = self.find(id)
        await chat.stop()
        self._open.pop(id, None)
        path = chat.session.file.path
        if path is not None and path.exists():
            self._store.delete(self._store.find(id))
        self._events.put(type="chat", id=id)

    async def close(self) -> None:
        """Stop all answers."""
        for chat in list(self._open.values()):
            await chat.stop()

    def _opened(self, saved: Saved | None) -> OpenChat:
        chat = OpenChat(self._host, self.models, self._saving, self._changed, saved)
        self._open[chat.id] = chat
        return chat

    def _changed(self, id: str) -> None:
        self._events.put(type="chat", id=id)


def _summary(id: str, title: str, model: str, changed: str, running: bool) -> ChatSummary:
    return ChatSummary(id=id, title=title, model=model, changed=changed, running=running)


def _text_of(saved: Saved) -> str:
    """Return everything that a search looks at, in lower case."""
    blocks = (block for message in saved.messages for block in blocks_of(message))
    texts = (block.text for block in blocks if isinstance(block, TextContent))
    return "\n".join([saved.title, saved.id, *texts]).casefold()


def _attachments_of(message: SamplingMessage) -> list[Attachment]:
    """Return the attachments of a message, to send them again."""
    found = []
    for block in blocks_of(message):
        attached = (getattr(block, "meta", None) or {}).get(ATTACHED)
        if isinstance(attached, list) and len(attached) == 2:
            found.append(Attachment(str(attached[0]), str(attached[1]), [block], size_of([block])))
    return found
