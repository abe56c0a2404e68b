"""ChatSession: a chat with its servers, its model and the file that it is saved in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from carrel.chat.approvals import Approvals
from carrel.chat.attachments import Attachment, expand_template, find_mentions, read_attachments, read_file
from carrel.chat.compaction import is_user_message
from carrel.chat.conversation import Conversation
from carrel.chat.events import ChatEvent, Notice, TurnEnd
from carrel.chat.loop import Chat, ChatOptions
from carrel.chat.model import Model, Usage
from carrel.chat.prices import Prices, window_of
from carrel.chat.prompts import PromptCall, get_prompt_messages
from carrel.chat.store import ChatFile, ChatStore, Saved
from carrel.chat.toolbox import ChatToolbox
from carrel.errors import ConfigError
from carrel.host import Host
from carrel.wire.client_features import SamplingContent, SamplingMessage
from carrel.wire.content import TextContent

__all__ = ["ChatSession"]


class ChatSession:
    """A chat session: takes the user's input, and returns answers.

    Args:
        host: the servers, connected.
        model: the language model; closed with the session, or when it is replaced.
        open_model: opens a model by name (``VENDOR:MODEL``).
        approvals: decides about tool calls.
        show: gets the events.
        store: where conversations are saved; None to save nothing.
        targets: the servers as the user named them, to be saved with a conversation.
        own_tools: whether the model may list and read resources.
        options: the window and other options of the chat.
    """

    def __init__(
        self,
        host: Host,
        model: Model,
        open_model: Callable[[str], Awaitable[Model]],
        approvals: Approvals,
        show: Callable[[ChatEvent], None],
        *,
        store: ChatStore | None = None,
        targets: Sequence[str] = (),
        own_tools: bool = True,
        options: ChatOptions = ChatOptions(),  # noqa: B008
    ) -> None:
        self.host = host
        self.approvals = approvals
        self.store = store
        self.prices = Prices()
        self.pending: list[Attachment] = []
        """Attachments that go with the next message."""
        self._open_model = open_model
        self._show = show
        self._targets = targets
        self._window = options.window
        self.toolbox = ChatToolbox(host, approvals, show, own_tools=own_tools)
        self.chat = Chat(
            model, self.toolbox, Conversation(), show, price=self._cost, save=self._save_media, options=options
        )
        self.file: ChatFile = ChatFile(None, "", model.name, targets)
        self._set_window()
        self.clear()

    @property
    def model(self) -> Model:
        """The model that answers now."""
        return self.chat.model

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()

    # Messages of the user

    async def say(self, text: str) -> TurnEnd:
        """Send a message with the resources that it mentions, and return the answer.

        Raises:
            MCPError: a resource cannot be read (the message was not added), or the model cannot be reached.
        """
        return await self.send(await self.compose(text))

    async def compose(self, text: str) -> list[SamplingContent]:
        """Return a message with the pending attachments, and with the resources that it mentions.

        Raises:
            MCPError: a resource cannot be read.
        """
        mentions = await find_mentions(self.host, text)
        attached = [*self.pending, *await read_attachments(self.host, mentions)]
        for one in attached:
            target = f"{one.server}:{one.uri}" if one.server else one.uri
            self._show(Notice(text=f"attached {target} ({one.size:,} characters)"))
        self.pending = []
        return [*(block for one in attached for block in one.content), TextContent(text)]

    async def send(self, content: Sequence[SamplingContent]) -> TurnEnd:
        """Send a message that ``compose`` has returned, and return the answer.

        Raises:
            MCPError: the model cannot be reached.
        """
        return self._noted(await self.chat.say(content))

    async def say_prompt(self, call: PromptCall, values: Mapping[str, str]) -> TurnEnd:
        """Return the answer to the messages of a prompt. See ``say``."""
        messages = await get_prompt_messages(self.host, call, values)
        if not messages:
            raise ConfigError(f"the prompt {call.prompt.name!r} has no messages")
        for message in messages:
            self._show_prompt(call, message)
        self.chat.conversation.add(*messages)
        return self._noted(await self.chat.continue_turn())

    def _show_prompt(self, call: PromptCall, message: SamplingMessage) -> None:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        text = " ".join(block.text for block in blocks if isinstance(block, TextContent))
        short = " ".join(text.split())
        short = short if len(short) <= 200 else f"{short[:200]}…"
        self._show(Notice(text=f"{call.server}:{call.prompt.name} [{message.role}] {short}"))

    async def retry(self) -> TurnEnd:
        """Ask the model again, after an error or a cancellation.

        Raises:
            ConfigError: there is nothing that it has not answered.
        """
        messages = self.chat.conversation.messages
        if not messages or messages[-1].role != "user":
            raise ConfigError("nothing to retry: the model has answered")
        return self._noted(await self.chat.continue_turn())

    def undo(self) -> None:
        """Take back the last question and all that came of it.

        Raises:
            ConfigError: there is no question.
        """
        messages = self.chat.conversation.messages
        at = next((at for at in reversed(range(len(messages))) if is_user_message(messages[at])), None)
        if at is None:
            raise ConfigError("there is no message to undo")
        self.chat.conversation.replace(messages[:at])

    def _noted(self, answer: TurnEnd) -> TurnEnd:
        self.file.count(self.chat.conversation.usage, self.chat.conversation.cost)
        return answer

    # Attachments

    async def attach(self, target: str, values: Mapping[str, str]) -> Sequence[Attachment]:
        """Attach ``@server:uri``, a template with its arguments, or a local file to the next message.

        Raises:
            MCPError: it cannot be read.
        """
        if not target.startswith("@"):
            found = [read_file(target)]
        else:
            server, _, template = target[1:].partition(":")
            if values and server in self.host.servers:
                target = f'@"{server}:{expand_template(template, values)}"'
            mentions = await find_mentions(self.host, target)
            if not mentions:
                raise ConfigError(f"{target}: write @SERVER:URI, or the path of a file")
            found = await read_attachments(self.host, mentions)
        self.pending += found
        return found

    # Model, conversation, file

    async def use_model(self, name: str) -> None:
        """Switch the conversation to another model.

        Raises:
            ConfigError: there is no such model, or its key or package is missing.
        """
        new = await self._open_model(name)
        old, self.chat.model = self.chat.model, new
        self._set_window()
        self.file.change_model(new.name)
        await old.close()

    def clear(self) -> None:
        """Begin a new conversation, in a new file."""
        name = self.model.name
        self.file = ChatFile(None, "", name, self._targets)
        if self.store is not None:
            self.file = self.store.new(name, self._targets)
        self._begin(Conversation(on_message=self._saved, on_replace=self._replaced))

    def resume(self, saved: Saved) -> None:
        """Go on with a saved conversation."""
        if self.store is not None:
            self.file = self.store.open(saved)
        conversation = Conversation(saved.messages, on_message=self._saved, on_replace=self._replaced)
        conversation.usage, conversation.cost = saved.usage, saved.cost
        if len(conversation.messages) != len(saved.messages):  # a crash has cut it off
            conversation.replace(conversation.messages)
        self._begin(conversation)

    def _begin(self, conversation: Conversation) -> None:
        self.chat.conversation = conversation
        self.chat.context_tokens = 0
        self.pending = []

    def _saved(self, message: SamplingMessage) -> None:
        self.file.add(message)

    def _replaced(self, messages: Sequence[SamplingMessage]) -> None:
        self.file.replace(messages)

    def _save_media(self, data: bytes, kind: str) -> str | None:
        return self.file.save_media(data, kind)

    def count_sampling(self, model: str, usage: Usage) -> None:
        """Add the usage of a server's sampling request."""
        self.chat.conversation.count(usage, self._cost(model, usage))

    def _cost(self, model: str, usage: Usage) -> float | None:
        """Return the cost of a request, by the requested model name, or else by the name in the vendor's response."""
        known = self.prices.cost(self.model.name, usage)
        return self.prices.cost(f"{self.model.name.partition(':')[0]}:{model}", usage) if known is None else known

    def _set_window(self) -> None:
        self.chat.window = self._window or self.prices.window(self.model.name) or window_of(self.model.name)
