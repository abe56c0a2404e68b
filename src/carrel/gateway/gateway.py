"""Gateway: combines many servers of any revision into one server that speaks every revision.

async with Gateway(files=["mcp.json"]) as gateway:
    await gateway.app.run_async("http", port=8000)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Unpack

import msgspec

from carrel.catalog.provider import Provider, ReportedEvents
from carrel.client.options import ClientOptions
from carrel.errors import ConfigError
from carrel.gateway.catalog import GatewayCatalog
from carrel.gateway.isolation import IsolatedProvider
from carrel.gateway.listed_names import ListedNamesGate
from carrel.gateway.names import NameKind, Names, PrefixMode
from carrel.gateway.providers import GivenGrants, OfPrincipal, Providers
from carrel.gateway.sessions import SessionLimits
from carrel.gateway.status import STATUS_URI, merged_instructions, status_of, table_of
from carrel.gateway.upstream import UpstreamTransform
from carrel.host.changes import HostChanges
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import ConfigProblem, ServerConfig
from carrel.host.host import Host
from carrel.host.hosted_server import HostedServer
from carrel.host.relayed import RELAYED
from carrel.host.remote import PATIENCE
from carrel.log import Log
from carrel.near_names import did_you_mean
from carrel.printable import printable
from carrel.protocol import VERSION
from carrel.server.app import Server
from carrel.transports.client.transport import Credentials

__all__ = ["Gateway", "HostOptions"]

log = Log("carrel.gateway")

#: Seconds that entering a gateway waits for its servers. Slower servers appear later, with list change notifications.
START_PATIENCE = 5.0


class HostOptions(ClientOptions, total=False):
    """Options that a gateway passes to its ``Host``."""

    lazy: bool
    start_timeout: float
    inputs: Inputs | None
    credentials: Callable[[ServerConfig], Credentials | None] | None


class Gateway:
    """Gateway that combines many MCP servers into one: a ``Host`` for the servers, and a ``Server`` for the clients.

    Use it as an async context manager, and run ``app`` on any transports inside. Entering waits until the servers are
    ready or have failed, for at most ``enter_timeout`` seconds.

    Args:
        configs: the servers, or the path of one configuration file.
        files: configuration files, as in ``Host``; they are watched for changes while the gateway is open.
        name, instructions: name and instructions of the gateway. The instructions of the servers are appended.
        prefix: "auto": prefix names that several servers have; "always": prefix all names; "never": a name that two
            servers have is an error.
        only: names of the servers to use from ``configs`` and ``files``; by default, all.
        revisions: protocol revisions by server name; they override the revisions in the configuration.
        status: offer the resource ``carrel://gateway/servers``, which has the state of each server.
        enter_timeout: seconds that entering waits for servers; slower servers appear once they are ready.
        upstream: returns the provider for a server; by default, a provider with one session per isolation key, as
            ``isolation`` in the server's configuration says.
        sessions: limits on the sessions with each server.
        grants: grants of users at servers that require a login, or a function that creates them (if no pages are
            served); without it, users cannot log in at servers.
        credentials_of: returns a caller's personal credentials for a server, or None.
        transform: returns the provider to offer instead of the merged provider, such as a transform of it.
        app: options of ``Server``: ``version``, ``limits``, ``gate``, ``state`` and others.
        options: options of the host (``lazy``, ``credentials``, ``inputs``) and of its clients, such as the
            ``revision`` for servers whose configuration does not set one.

    Raises:
        ConfigError: an option is not valid, or the file ``configs`` does not exist.
    """

    def __init__(
        self,
        configs: Iterable[ServerConfig] | Path | str = (),
        *,
        files: Iterable[Path | str] = (),
        name: str = "carrel-gateway",
        instructions: str | None = None,
        prefix: PrefixMode = "auto",
        only: Iterable[str] = (),
        revisions: Mapping[str, str] = MappingProxyType({}),
        status: bool = True,
        enter_timeout: float = START_PATIENCE,
        upstream: Callable[[HostedServer], Provider] | None = None,
        transform: Callable[[Provider], Provider] | None = None,
        sessions: SessionLimits = SessionLimits(),  # noqa: B008
        grants: GivenGrants | None = None,
        credentials_of: OfPrincipal | None = None,
        app: dict[str, Any] | None = None,
        **options: Unpack[HostOptions],
    ) -> None:
        if isinstance(configs, Path | str):
            if not Path(configs).expanduser().is_file():
                raise ConfigError(f"there is no file {configs}")
            files, configs = [configs, *files], ()
        self.names = Names(prefix, self._renamed)
        """Names of the servers' tools, prompts and URIs."""
        self.catalog = GatewayCatalog(self.names, self._settle, self._is_waiting)
        """Merged provider for all servers."""
        options.setdefault("handlers", RELAYED)
        options.setdefault("start_timeout", PATIENCE)
        providers = Providers(sessions, grants, credentials_of)
        options.setdefault("credentials", providers.shared_credentials)
        self._only = tuple(only)
        self._offered = set[str]()
        """Names of all servers in the configurations, also of unused servers."""
        self._revisions = dict(revisions)
        self._files = [Path(file) for file in files]
        self._lazy = options.get("lazy", False)
        self.host = GatewayHost(
            self,
            [*configs],
            files=self._files,
            catalog=self.catalog,
            expose=self._upstream,
            enter_timeout=enter_timeout,
            **options,
        )
        """The servers."""
        self.app: Server[Any] = Server(name, **{"version": VERSION, **(app or {})})
        """The server that clients connect to."""
        if self.app.gate is not None:
            self.app.gate = ListedNamesGate(self.app.gate, self.catalog)
        self._instructions = instructions
        self._provider_of = upstream
        self._providers = providers
        self._isolated: dict[str, IsolatedProvider] = {}
        self._changes: HostChanges | None = None
        self._following: asyncio.Task[None] | None = None
        self._settling = asyncio.Lock()
        self._said: dict[str, str] = {}
        self._collisions: set[tuple[NameKind, str]] = set()
        self.app.skills()
        self.provider: Provider = self.catalog if transform is None else transform(self.catalog)
        """Provider that clients see: the catalog, or the result of ``transform``."""
        self.app.add_provider(self.provider)
        if grants is not None and not callable(grants) and grants.pages is not None:
            grants.pages.add_routes(self.app)
        own = getattr(self.provider, "own_names", ())
        self.catalog.own = frozenset((*own, STATUS_URI) if status else own)
        if status:
            self._add_status()

    def _add_status(self) -> None:
        @self.app.resource(
            STATUS_URI,
            name="servers",
            description="The servers of this gateway, and how they are.",
            mime_type="application/json",
        )
        async def servers() -> str:
            return self.status()

    async def __aenter__(self) -> Gateway:
        self._changes = self.host.watch()
        await self.host.__aenter__()
        try:
            missing = [name for name in (*self._only, *self._revisions) if name not in self.host.servers]
            if missing:
                raise ConfigError(f"there is no server {missing[0]!r}{did_you_mean(missing[0], self._offered)}")
            await self.catalog.learning.settled()
            if self.names.mode == "never":
                self._check_names()
            self._describe()
            for server in self.host.servers.values():
                self._say(server)
            self._following = asyncio.ensure_future(self._follow())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def status(self) -> str:
        """Return the status of the servers as JSON."""
        return status_of(self.host.servers.values(), self.names, self._saved, self._problems)

    def table(self) -> str:
        """Return the status of the servers as a text table."""
        return table_of(self.host.servers.values(), self.names, self._saved, self._problems)

    @property
    def _problems(self) -> list[ConfigProblem]:
        """Problems in the used entries of the configuration files."""
        return [problem for problem in self.host.problems if not self._only or problem.entry in self._only]

    @property
    def _saved(self) -> str | None:
        """Text about the tokens saved by tool search; None without tool search, or before the tools have been read."""
        from carrel.gateway.tool_search import ToolSearch

        return self.provider.saved if isinstance(self.provider, ToolSearch) else None

    async def close(self) -> None:
        """Close the connections to all servers."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await self.host.close()
        await self._providers.close()

    def wanted(self, configs: Iterable[ServerConfig]) -> list[ServerConfig]:
        """Return the configurations to use, and register their names."""
        chosen = []
        for config in configs:
            self._offered.add(config.name)
            if self._only and config.name not in self._only:
                continue
            if "gateway" in config.args and any(_same_file(arg, file) for arg in config.args for file in self._files):
                log.warning("%s is left out: it is a gateway to the same file, and would start itself", config.name)
                continue
            revision = self._revisions.get(config.name, config.revision)
            chosen.append(msgspec.structs.replace(config, revision=revision))
        self.names.servers([config.name for config in chosen])
        return chosen

    def _upstream(self, server: HostedServer) -> Provider:
        self.names.forget(server.name)
        if self._provider_of is not None:
            return self._wrap(server, self._provider_of(server))
        provider = self._isolated[server.name] = self._providers.of(server)
        wrapped = self._wrap(server, provider)
        provider.learned = partial(self.catalog.learn_session, wrapped)
        provider.begin(wrapped.inner_events(ReportedEvents(partial(self.catalog.publish, wrapped))))
        return wrapped

    async def stopped(self, server: HostedServer) -> None:
        """Close the sessions of a server that has been removed."""
        isolated = self._isolated.pop(server.name, None)
        if isolated is not None:
            await isolated.stop()

    def _wrap(self, server: HostedServer, provider: Provider) -> UpstreamTransform:
        return UpstreamTransform(server, provider, self.names, self.catalog.learning.matching)

    def _renamed(self, kind: NameKind) -> None:
        self.catalog.notify_renamed(kind)
        if self.names.mode == "never" and self._following is not None:
            self._say_collisions(kind)

    def _say_collisions(self, kind: NameKind) -> None:
        """Log each name that several servers have now, once until the collision ends."""
        shared = {(each, name): servers for each, name, servers in self.names.shared() if each == kind}
        for key, servers in shared.items():
            if key not in self._collisions:
                log.warning(
                    "the %s %s is offered by %s now, and cannot be used: use the prefix 'auto' or 'always'",
                    *(kind, printable(key[1], 200), " and ".join(servers)),
                )
        self._collisions = {key for key in self._collisions if key[0] != kind} | shared.keys()

    def _check_names(self) -> None:
        """Check that each name belongs to one server only.

        Raises:
            ConfigError: two servers have the same name for something.
        """
        for kind, name, servers in self.names.shared():
            raise ConfigError(
                f"the {kind} {name} is offered by {' and '.join(servers)}: use the prefix 'auto' or 'always'"
            )

    async def _settle(self) -> None:
        """Connect to the idle servers, and read their lists: a gateway needs their names."""
        if self._lazy and any(server.state == "idle" for server in self.host.servers.values()):
            async with self._settling:
                await asyncio.gather(*(self.host.wake(name) for name in list(self.host.servers)))
                await self.catalog.learning.settled()

    def _is_waiting(self) -> bool:
        """Return whether a server is idle or connecting, so that its names are unknown."""
        return any(server.state in ("idle", "connecting") for server in self.host.servers.values())

    def _describe(self) -> None:
        self.app.endpoint.description.instructions = merged_instructions(self._instructions, self.host.servers.values())

    async def _follow(self) -> None:
        """Watch the states of the servers: log empty and failed servers, and update the instructions."""
        assert self._changes is not None
        async for change in self._changes:
            self._describe()
            server = self.host.servers.get(change.server)
            if server is None or change.kind != "state":
                continue
            self._say(server)

    def _say(self, server: HostedServer) -> None:
        """Log that a server is empty or has failed, once per change of its state."""
        state = "empty" if server.empty else server.state
        if state == "connecting" or self._said.get(server.name) == state:
            return
        self._said[server.name] = state
        if state == "empty":
            log.warning("%s is connected, and offers nothing", server.name)
        elif state == "failed":
            log.warning("%s is not available: %s", server.name, " ".join((server.reason or "").split()))


class GatewayHost(Host):
    """Host of a gateway, which may use only some of the configured servers."""

    def __init__(self, gateway: Gateway, configs: Iterable[ServerConfig], **options: Any) -> None:
        super().__init__(configs, **options)
        self._gateway = gateway

    async def _stop(self, server: HostedServer) -> None:
        await super()._stop(server)
        await self._gateway.stopped(server)

    async def _replace(self, configs: Iterable[ServerConfig]) -> list[HostedServer]:
        return await super()._replace(self._gateway.wanted(configs))


def _same_file(argument: str, file: Path) -> bool:
    """Return whether a command-line argument is the path of a file."""
    try:
        return Path(argument).expanduser().resolve() == file.expanduser().resolve()
    except (OSError, RuntimeError, ValueError):
        return False
