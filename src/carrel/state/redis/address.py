"""Addresses of Redis: one server, the master that Sentinels name, or the node of a cluster with the keys of a store.

URLs with ``+sentinel`` and ``+cluster`` have the usual form of Python libraries (docket, LangChain, Prefect).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from carrel.errors import ConfigError
from carrel.extras import explain_missing
from carrel.log import Log
from carrel.state.interfaces import StoreUnavailable

__all__ = ["PATIENCE", "Address", "disconnect", "explain", "read_address", "send"]

#: Seconds after which a command without a response fails, also while Redis cannot be reached.
PATIENCE = 1.0
#: Maximum number of nodes of a cluster to try, and to remember.
MAX_NODES = 100
SENTINEL_PORT = 26379
SERVER_PORT = 6379
FORMS = (
    "redis://HOST:6379/0, rediss://… (TLS), unix://PATH, redis+sentinel://HOST:26379,HOST:26379/SERVICE/0 or "
    "redis+cluster://HOST:6379,HOST:6379"
)

log = Log("carrel")

#: Host and port.
Node = tuple[str, int]


async def send(connection: Any, commands: Sequence[tuple[Any, ...]]) -> None:
    """Send commands in one pipeline."""
    await connection.send_packed_command(connection.pack_commands(commands), check_health=False)


async def disconnect(connection: Any) -> None:
    """Close a connection."""
    with contextlib.suppress(Exception):
        await connection.disconnect(nowait=True)


def explain(error: BaseException) -> str:
    """Describe an error of redis-py, without a password. Other errors are about reading a response."""
    from redis.exceptions import RedisError

    if isinstance(error, TimeoutError):
        return "it does not respond"
    if not isinstance(error, (RedisError, StoreUnavailable, OSError)):
        return "it does not respond as Redis does"
    return (str(error) or type(error).__name__).rstrip(".")


async def open_connection(make: Callable[[], Any]) -> Any:
    """Connect a connection that ``make`` returns."""
    connection = make()
    try:
        await connection.connect()
    except BaseException:
        await disconnect(connection)
        raise
    return connection


class Address:
    """Address of one server, with keyword arguments of redis-py. ``shown`` is the URL without the password."""

    #: Prefixes of error responses that say that another server has the store now.
    elsewhere: tuple[str, ...] = ()

    def __init__(self, shown: str, connect: Callable[..., Any], options: dict[str, Any]) -> None:
        self.shown = shown
        self.connect = connect
        self.options = options
        self._server: Node | None = None
        self.make()

    def make(self, **options: Any) -> Any:
        """Return a connection of redis-py that is not connected yet.

        Raises:
            ConfigError: the URL has an unknown option.
        """
        try:
            return self.connect(**{**self.options, **options})
        except TypeError:
            raise ConfigError(f"{self.shown}: the URL has an option that redis-py does not know") from None

    async def open(self) -> Any:
        """Return a connection to the server that has the store.

        Raises:
            StoreUnavailable: no server has it now.
            Exception: an error of redis-py, or an ``OSError``.
        """
        return await open_connection(self.make)

    async def _open_node(self, node: Node, **options: Any) -> Any:
        host, port = node
        return await open_connection(lambda: self.make(host=host, port=port, **options))

    def _found(self, node: Node) -> None:
        if self._server not in (None, node):
            log.warning("%s: the state of sessions and tasks is at %s:%d now", self.shown, *node)
        self._server = node


class SentinelAddress(Address):
    """Address of the master of a service, which Sentinels name."""

    elsewhere = ("READONLY", "MASTERDOWN")

    def __init__(self, base: Address, sentinels: list[Node], service: str, options: dict[str, Any]) -> None:
        super().__init__(base.shown, base.connect, base.options)
        self._sentinels = sentinels
        self._service = service
        self._sentinel_options = options

    async def open(self) -> Any:
        """Return a connection to the master. Ask all Sentinels at once, since some may be down or behind."""
        tried: list[Node] = []
        failure: Exception = StoreUnavailable("no Sentinel answers")
        asking = [asyncio.create_task(self._ask(sentinel)) for sentinel in self._sentinels]
        try:
            for answer in asyncio.as_completed(asking):
                try:
                    node = await answer
                    if node in tried:
                        continue
                    tried.append(node)
                    async with asyncio.timeout(PATIENCE / 2):
                        connection = await self._open_master(node)
                except Exception as error:
                    failure = error
                else:
                    self._found(node)
                    return connection
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        raise failure

    async def _ask(self, sentinel: Node) -> Node:
        connection = await self._open_node(sentinel, **self._sentinel_options)
        try:
            await send(connection, [("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)])
            found = await connection.read_response()
        finally:
            await disconnect(connection)
        if found is None:
            raise StoreUnavailable(f"the Sentinel {sentinel[0]}:{sentinel[1]} knows no service {self._service}")
        return found[0].decode(), int(found[1])

    async def _open_master(self, node: Node) -> Any:
        connection = await self._open_node(node)
        try:
            await send(connection, [("ROLE",)])
            role, *_ = await connection.read_response()
            if role != b"master":
                raise StoreUnavailable(f"{node[0]}:{node[1]} is not the master of {self._service}")
        except BaseException:
            await disconnect(connection)
            raise
        return connection


class ClusterAddress(Address):
    """Address of the node of a cluster that has the keys of a store, which are in one hash slot."""

    elsewhere = ("MOVED", "CLUSTERDOWN", "READONLY", "MASTERDOWN")

    def __init__(self, base: Address, nodes: list[Node], key: str) -> None:
        super().__init__(base.shown, base.connect, base.options)
        self._given = nodes
        self._nodes = nodes
        self._key = key

    async def open(self) -> Any:
        """Return a connection to the node."""
        from redis.exceptions import MovedError

        waiting = self._nodes
        asked: list[Node] = []
        failure: Exception = StoreUnavailable("no node of the cluster answers")
        while waiting and len(asked) < MAX_NODES:
            node, *waiting = waiting
            if node in asked:
                continue
            asked.append(node)
            self._nodes = [*(other for other in self._nodes if other != node), node]  # if it fails, ask it last
            try:
                connection, others = await self._try(node)
            except MovedError as error:
                waiting = [(error.host or node[0], error.port), *waiting]
            except Exception as error:
                failure = error
            else:
                self._nodes = list(dict.fromkeys([node, *others, *self._given]))[:MAX_NODES]
                self._found(node)
                return connection
        raise failure

    async def _try(self, node: Node) -> tuple[Any, list[Node]]:
        """Connect to a node, and check that it has the keys. Return the connection and all nodes."""
        from redis.exceptions import ResponseError

        async with asyncio.timeout(PATIENCE / 2):
            connection = await self._open_node(node)
            try:
                await send(connection, [("CLUSTER", "SLOTS"), ("EXISTS", self._key)])
                try:
                    slots = await connection.read_response(disconnect_on_error=False)
                except ResponseError as error:
                    if "cluster support disabled" in str(error):
                        raise StoreUnavailable(f"{node[0]}:{node[1]} is not a node of a cluster") from None
                    slots = []  # the user may not ask for the nodes
                await connection.read_response()
            except BaseException:
                await disconnect(connection)
                raise
        servers = [server for _, _, *servers in slots for server in servers]
        return connection, [(host.decode() if host else node[0], int(port)) for host, port, *_ in servers]


def read_address(url: str, key: str) -> Address:
    """Return the address in a URL. The ``key`` is one of the keys of the store.

    Raises:
        ConfigError: the URL is not valid, or the package redis is not installed. The message has no password.
    """
    try:
        from redis.asyncio import connection
    except ModuleNotFoundError as error:
        raise ConfigError(explain_missing(error) or str(error)) from None
    scheme, _, rest = url.partition("://")
    kind, _, how = scheme.lower().partition("+")
    try:
        if how == "":
            return read_plain(url, connection)
        if kind not in ("redis", "rediss") or how not in ("sentinel", "cluster"):
            raise ValueError
        return read_nodes(kind, how, rest, key, connection)
    except ValueError:
        raise ConfigError(f"The state has a URL such as {FORMS}") from None


def read_plain(url: str, connection: Any) -> Address:
    """Return the address of one server.

    Raises:
        ValueError: the URL is not valid.
    """
    parts = urlsplit(url)
    connect, options = options_of(url, connection)
    user = f"{parts.username}@" if parts.username else ""
    place = options.get("path") if parts.scheme == "unix" else f"{options.get('host') or 'localhost'}"
    port = f":{parts.port}" if parts.port else ""
    return Address(f"{parts.scheme}://{user}{place}{port}", connect, options)


def options_of(url: str, connection: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the class of connections for a URL, and their options."""
    options: dict[str, Any] = dict(connection.parse_url(url))
    connect = options.pop("connection_class", connection.Connection)
    return connect, {"socket_timeout": None, "socket_connect_timeout": PATIENCE, "protocol": 2, **options}


def read_nodes(kind: str, how: str, rest: str, key: str, connection: Any) -> Address:
    """Return the address of a store that Sentinels name, or that a cluster has.

    Raises:
        ConfigError: the URL lacks the service of Sentinels, or names a database of a cluster.
        ValueError: the URL is not valid.
    """
    place, _, query = rest.partition("?")
    authority, _, path = place.partition("/")
    user, _, hosts = authority.rpartition("@")
    ports = {"sentinel": SENTINEL_PORT, "cluster": SERVER_PORT}
    nodes = [node_of(host, ports[how]) for host in hosts.split(",")]
    name = user.partition(":")[0]
    shown = f"{kind}+{how}://{f'{name}@' if name else ''}{hosts}"
    service, database = "", path.strip("/")
    if how == "sentinel":
        service, _, database = database.partition("/")
        service = unquote(service)
        if not service:
            raise ConfigError(f"{shown}: name the service of the Sentinels: {shown}/SERVICE")
        shown += f"/{service}"
    given = parse_qsl(query, keep_blank_values=True)
    own = {name.removeprefix("sentinel_"): value for name, value in given if name.startswith("sentinel_")}
    others = urlencode([(name, value) for name, value in given if not name.startswith("sentinel_")])
    if database and not database.isdecimal():
        raise ConfigError(f"{shown}: a database has a number, not {database!r}")
    if own.keys() - {"username", "password"} or (own and how == "cluster"):
        raise ConfigError(
            f"{shown}: the URL has an option that does not exist; sentinel_username and sentinel_password do"
        )
    connect, options = options_of(f"{kind}://{user}{'@' if user else ''}localhost/{database}?{others}", connection)
    base = Address(shown, connect, options)
    if how == "sentinel":
        return SentinelAddress(base, nodes, service, {"db": 0, "username": None, "password": None, **own})
    if options.get("db"):
        raise ConfigError(f"{shown}: a cluster has database 0 only")
    return ClusterAddress(base, nodes, key)


def node_of(text: str, port: int) -> Node:
    """Return a host and its port.

    Raises:
        ValueError: there is no host, or the port is not a number.
    """
    parts = urlsplit(f"redis://{text}")
    if not parts.hostname or parts.path or parts.query:
        raise ValueError("no host")
    return parts.hostname, parts.port or port
