"""Studio: the host behind the page, with everything that the routes use."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from carrel.chat.approvals import ApprovalStore, default_approvals
from carrel.chat.sampling import question_asker
from carrel.chat.store import ChatStore, default_chats
from carrel.client.options import ClientOptions
from carrel.host.config.server_config import ServerConfig
from carrel.host.host import Host
from carrel.protocol import VERSION
from carrel.studio.api import Pack, StudioState
from carrel.studio.apps import AppsShown
from carrel.studio.bodies import ContextRequest
from carrel.studio.chat import ChatSaving
from carrel.studio.chats import Chats
from carrel.studio.contents import ContentReader
from carrel.studio.documents import DocumentTexts
from carrel.studio.events import PageEvents
from carrel.studio.examinations import Examinations
from carrel.studio.gate import new_token
from carrel.studio.interfaces import Interfaces
from carrel.studio.links import Links
from carrel.studio.lists import Lists
from carrel.studio.live import Live, Watched
from carrel.studio.models import Models
from carrel.studio.operations import PageOperations
from carrel.studio.questions import Questions
from carrel.studio.searching import can_search, pack, view_of
from carrel.studio.servers import Servers
from carrel.studio.tasks import FollowedTasks
from carrel.studio.timeline.log import WireLog, record
from carrel.studio.timeline.timeline import Timeline
from carrel.transports.client.transport import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from carrel.chat.model import Model, Usage
    from carrel.context.pack import Packed

__all__ = ["Studio"]

#: Seconds that opening waits for servers. The page shows slower ones as connecting.
PATIENCE = 0.2


class Studio:
    """Host of some servers for a page in a browser. Use it as an async context manager, and serve it by ``serve``.

    Args:
        configs: the servers.
        files: configuration files with more servers.
        model: model of conversations and of sampling requests that the user accepts, or its name.
        store: where conversations are saved; None for the user's own, which ``carrel chat`` has.
        approvals: the tools that are approved for always; None for the user's own file.
        targets: the servers as the user named them, to be saved with a conversation.
        session: messages of a session file, to be shown in place of the servers' messages.
        start_timeout: seconds that connecting to a server may take.
        credentials: returns the credentials of a server with a URL.
        options: options of the clients.
    """

    def __init__(
        self,
        configs: Iterable[ServerConfig] = (),
        *,
        files: Iterable[Path] = (),
        model: Model | str | None = None,
        store: ChatStore | None = None,
        approvals: ApprovalStore | None = None,
        targets: Sequence[str] = (),
        session: Timeline | None = None,
        start_timeout: float = 30.0,
        credentials: Callable[[ServerConfig], Credentials | None] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.token = new_token()
        """Token of this launch, which every request for the API needs."""
        self.events = PageEvents()
        self.models = Models(model) if model is None or isinstance(model, str) else Models(model=model)
        self.questions = Questions(self.events, self.models)
        options["handlers"] = self.questions.handlers()
        options["extensions"] = (*options.get("extensions", ()), AppsShown())
        self.timeline = Timeline(WireLog(lambda: self.events.put(type="wire")))
        """Messages between the host and its servers."""
        self.session: Timeline | None = session
        """Messages of an opened session file, which are shown in place of them."""
        self.host = Host(
            configs,
            files=files,
            start_timeout=start_timeout,
            enter_timeout=PATIENCE,
            credentials=credentials,
            prepare=lambda server, client: record(client, self.timeline.log, server.name),
            **options,
        )
        self.lists = Lists(self.host, lambda name, kind: self.events.put(type="list", server=name, kind=kind))
        self.operations = PageOperations(self.events)
        self.tasks = FollowedTasks(self.host, self.questions, self.events)
        watched = Watched()
        self.contents = ContentReader(self.host, self.lists, watched)
        self.documents = DocumentTexts(self.contents)
        self.interfaces = Interfaces(self.events)
        self.servers = Servers(self.host, self.lists, self.events, self.interfaces)
        self.live = Live(self.host, self.servers, self.lists, self.contents, watched, self.events)
        self.examinations = Examinations(self.events)
        self.links = Links()
        saving = ChatSaving(
            ChatStore(default_chats()) if store is None else store,
            ApprovalStore(default_approvals()) if approvals is None else approvals,
            tuple(targets),
        )
        self.chats = Chats(self.host, self.models, self.events, self.packed, saving)
        self._packed_at = 0
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Studio:
        await self._open.enter_async_context(self.live)
        await self._open.enter_async_context(self.host)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.events.end()
        await self.chats.close()
        await self.operations.close()
        await self.lists.directories.close()
        await self.documents.close()
        await self.tasks.close()
        await self.examinations.close()
        await self.models.close()
        await self.servers.close()
        await self._open.aclose()

    @property
    def state(self) -> StudioState:
        """The state of the host."""
        return StudioState(
            version=VERSION,
            seq=self.events.seq,
            servers=self.servers.all,
            questions=self.questions.waiting,
            tasks=self.tasks.all,
            model=self.models.current,
            searching=can_search(),
            recording=self.shown.recording,
        )

    @property
    def shown(self) -> Timeline:
        """The timeline that the page shows: of the opened session file, or else of the servers."""
        return self.timeline if self.session is None else self.session

    def show_session(self, session: Timeline | None) -> None:
        """Show the messages of a session file, or None for the messages of the servers again."""
        self.session = session
        self.events.put(type="reset")

    async def pack(self, request: ContextRequest) -> Pack:
        """Pack a context for the page. See ``packed``."""
        began, tokens = self.live.changes.copy(), 0

        def count(model: str, usage: Usage) -> None:
            nonlocal tokens
            tokens += usage.input_tokens + usage.output_tokens

        packed = await self.packed(request, count)
        return view_of(packed, changed=(self.live.changes - began).keys(), model_tokens=tokens)

    async def packed(
        self, request: ContextRequest, count: Callable[[str, Usage], None] = lambda model, usage: None
    ) -> Packed:
        """Pack a context. ``count`` gets the tokens that the model takes. See ``carrel.studio.searching.pack``.

        Raises:
            ConfigError: the model shall help, and no model is configured; see also ``pack``.
        """
        seen, self._packed_at = self._packed_at, self.live.changes.total()
        ask = question_asker(self.models.get(self.models.current or ""), count) if request.ask_model else None
        return await pack(self.host, self.live, request, seen, ask)
